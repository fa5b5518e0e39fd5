// A program as a sum of cost tables over the placements of its values. Pure.
#pragma once

#include <lockstep/plan/search/elimination.h>
#include <lockstep/plan/search/space.h>

#include <optional>
#include <vector>

namespace lockstep::plan {

/// A decision: a variable, and the meaning of its values.
struct DecisionVariable {
  std::uint32_t variable = 0;
  std::vector<Placements> options;
  std::vector<std::size_t> values;  ///< values of the program: a parameter, or all inputs
  bool inputs = false;
};

/// Tables of seconds whose sum is the cost of a step. Some costs count only as far as they are not hidden behind
/// computation.
struct StepTables {
  std::size_t variables = 0;
  std::vector<Table> time;        ///< costs of the program's steps
  std::vector<Table> backward;    ///< the tables of the backward phase again
  std::vector<Table> reduction;   ///< reductions of gradients, without the wait for a full bucket
  std::vector<Table> persistent;  ///< bytes of parameters, gradients and optimizer state
  std::vector<DecisionVariable> decisions;
};

/// The tables of a program; nullopt when they need more than `most_rows` rows, or more than `most_new` decisions that
/// are not cached. Subtracts the used rows from `most_rows`.
std::optional<StepTables> step_tables(const Program& program, const Space& space, Decisions& decisions,
                                      std::size_t& most_rows, std::size_t most_new);

}  // namespace lockstep::plan
