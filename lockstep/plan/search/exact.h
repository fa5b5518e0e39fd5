// The exact search for the best layout of a program on one mesh, with a proof; and the cost tables with which it works,
// and their exact minimum. Pure and deterministic.
#pragma once

#include <lockstep/plan/search/improve.h>
#include <lockstep/plan/search/space.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::plan {

// Cost tables over the placements of a program's values, which add up to the cost of a step.

/// The costs of the allowed combinations of values; combinations without a row are not allowed.
struct Table {
  std::vector<std::uint32_t> variables;  ///< distinct
  std::vector<std::uint16_t> values;     ///< the values in each row, one for each variable
  std::vector<double> costs;             ///< one for each row

  std::size_t rows() const { return costs.size(); }
};

struct LeastSum {
  double cost = 0;
  std::vector<std::uint16_t> values;  ///< value of each variable; 0 for variables that are in no table
};

/// The least sum; nullopt when no combination is allowed, or when tables would need more than `most_rows` rows.
/// Subtracts the used rows from `most_rows`. Each step of the elimination joins the tables of the variable with the
/// fewest neighbours, and keeps its best value for each combination of the other variables.
std::optional<LeastSum> least_sum(std::vector<Table> tables, std::size_t variables, std::size_t& most_rows);

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

/// The placements of a value for each value of a variable. Without a variable there is one placement.
struct Version {
  std::optional<std::uint32_t> variable;
  std::vector<PlacedAs> as{kReplicated};
};

/// The distinct variables of some values.
struct Variables {
  std::vector<std::uint32_t> all;
  std::vector<std::size_t> sizes;

  void take(const Version& version);
  bool have(const Version& version) const;  ///< true also if it has no variable
  /// The placements of `version` when the variables have the values `at`.
  PlacedAs look(const Version& version, std::span<const std::uint16_t> at) const;
};

/// Advances `at` to the next combination, the last index varying fastest; the first combination is all zeros. False
/// after the last one.
bool advance(std::vector<std::uint16_t>& at, const std::vector<std::size_t>& sizes);

/// All placements that are possible for a tensor: the allowed combinations of its placements along each axis.
std::vector<Placements> all_options(const TensorInfo& info, const std::vector<std::vector<Placement>>& by_axis,
                                    std::span<const int> mesh_sizes);

/// The bytes of a parameter with its gradient and optimizer state, for each of its possible placements. `version` is
/// the parameter's.
Table memory_table(const Program& program, std::size_t parameter, const Version& version,
                   const std::vector<Placements>& options, std::span<const int> mesh_sizes);

/// The possible placements of the inputs: replicated or sharded along each axis; a single one if the user has given it.
std::vector<Placements> input_options(const Space& space);

/// The seconds to read a rank's part of an input.
Table loading_table(const TensorInfo& input, const Version& version, const Decisions& decisions);

// The search.

/// The limits of the work of an exact search.
struct ExactBudget {
  std::size_t rows = 2'000'000;    ///< rows of tables
  std::size_t decisions = 50'000;  ///< new decisions for operators (not cached ones)
  std::size_t problems = 20'000;   ///< subproblems that are solved
  std::size_t trials = 1'000'000;  ///< operators simulated to try every layout, where these are so few
};

struct ExactResult {
  std::optional<Improved> best;  ///< a layout that is better than `known`, if there is one
  Seconds lower_bound{};         ///< no layout that fits is faster
  bool proven = false;           ///< the better of `known` and `best` is the fastest
};

/// Branch and bound. The possible executions of a step depend on the placements of its inputs, and their costs form a
/// table over these. The least sum of all tables is a lower bound of the cost of any layout; if the layout with that
/// sum has this cost, it is the best. If it costs more (memory is short, or reductions do not overlap as the tables
/// assume), parameters are fixed one by one, the most promising first, until no unexplored layout can be better.
/// If that ends without a proof and there are few layouts, all of them are tried. nullopt when the budget suffices
/// neither for that nor for a single bound.
std::optional<ExactResult> search_exactly(const Program& program, const Space& space, Decisions& decisions,
                                          const Improved& known, ExactBudget budget = {});

}  // namespace lockstep::plan
