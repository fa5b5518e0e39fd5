// Local search: one change at a time, kept when less memory is missing or the step gets faster. Pure.
#pragma once

#include <lockstep/plan/search/module_groups.h>

#include <vector>

namespace lockstep::plan {

/// The criterion for comparing plans: first the missing memory, then the time.
struct Score {
  Bytes missing{};
  Seconds cost{};
};
Score score_of(const Prediction& prediction, const CostModel& model);
/// Whether `a` is better than `b` by more than rounding errors.
bool is_better(const Score& a, const Score& b);

struct Improved {
  Assignment assignment;
  Prediction prediction;
};

/// Whether modules that differ only in their index may get different layouts.
enum class Layers { each, alike };

/// Changes the layout of modules, of equal modules of all layers together, of neighbours, and of the inputs, until no
/// change helps or `budget` operators were evaluated. Subtracts the evaluated operators from `budget`.
Improved improve(const Program& program, const Space& space, Decisions& decisions, Assignment start, Layers layers,
                 std::size_t& budget);

}  // namespace lockstep::plan
