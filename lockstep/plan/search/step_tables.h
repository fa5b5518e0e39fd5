// A program as a sum of cost tables over the placements of its values. Pure.
#pragma once

#include <lockstep/plan/search/elimination.h>
#include <lockstep/plan/search/space.h>

#include <optional>
#include <vector>

namespace lockstep::plan {

/// What may be decided: a variable, and what its values mean.
struct DecisionVariable {
  std::uint32_t variable = 0;
  std::vector<Placements> options;
  std::vector<std::size_t> values;  ///< of the program: a parameter, or all inputs
  bool inputs = false;
};

/// Tables of seconds that can be added up: as they are, and those that count only as far as they are not hidden.
struct StepTables {
  std::size_t variables = 0;
  std::vector<Table> time;        ///< steps
  std::vector<Table> backward;    ///< those of the backward phase again
  std::vector<Table> reduction;   ///< gradients, without what waiting for a full bucket costs
  std::vector<Table> persistent;  ///< bytes of parameters, gradients and optimizer state
  std::vector<DecisionVariable> decisions;
};

/// nullopt when that takes more than `most_rows` rows, which are taken from it, or more than `most_new` decisions that
/// nobody asked for before.
std::optional<StepTables> step_tables(const Program& program, const Space& space, Decisions& decisions,
                                      std::size_t& most_rows, std::size_t most_new);

}  // namespace lockstep::plan
