// The exact search for the best layout of a program on one mesh, with a proof. Pure and deterministic.
#pragma once

#include <lockstep/plan/search/improve.h>
#include <lockstep/plan/search/space.h>

#include <optional>

namespace lockstep::plan {

/// How much an exact search may do.
struct ExactBudget {
  std::size_t rows = 2'000'000;    ///< of tables
  std::size_t decisions = 50'000;  ///< of operators, that nobody asked for before
  std::size_t problems = 20'000;   ///< that are solved
};

struct ExactResult {
  std::optional<Improved> best;  ///< better than `known`, if something is
  Seconds lower_bound{};         ///< no layout that fits is faster
  bool proven = false;           ///< the better of `known` and `best` is the fastest
};

/// Which ways a step can go depends on how its inputs lie, and what that costs is a table over them. The least sum of
/// all tables bounds what any layout can cost, from below; where the layout that has it costs as much, that is the
/// best. Where it costs more (memory is short, reductions do not overlap as the tables assume), parameters are fixed
/// one by one, the most promising first, until nothing unexplored can be better. nullopt when the budget does not
/// suffice for a single bound.
std::optional<ExactResult> search_exactly(const Program& program, const Space& space, Decisions& decisions,
                                          const Improved& known, ExactBudget budget = {});

}  // namespace lockstep::plan
