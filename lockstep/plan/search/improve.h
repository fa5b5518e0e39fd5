// Local search: one change at a time, kept when less memory is missing or the step gets faster. Pure.
#pragma once

#include <lockstep/plan/search/module_groups.h>

#include <vector>

namespace lockstep::plan {

/// What plans are compared by: first how much memory is missing, then time.
struct Score {
  Bytes missing{};
  Seconds cost{};
};
Score score_of(const Prediction& prediction, const CostModel& model);
/// By more than rounding.
bool is_better(const Score& a, const Score& b);

struct Improved {
  Assignment assignment;
  Prediction prediction;
};

/// Whether modules that differ in their numbers only may become different.
enum class Layers { each, alike };

/// Changes modules, equal modules of all layers together, neighbours, and the inputs, until nothing helps or `budget`
/// operators were looked at, which is taken from it.
Improved improve(const Program& program, const Space& space, Decisions& decisions, Assignment start, Layers layers,
                 std::size_t& budget);

}  // namespace lockstep::plan
