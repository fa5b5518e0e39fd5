// The exact search for the best layout of a program on one mesh, with a proof. Pure and deterministic.
#pragma once

#include <lockstep/plan/search/improve.h>
#include <lockstep/plan/search/space.h>

#include <optional>

namespace lockstep::plan {

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
