// Lower bounds of the cost of reducing one gradient by itself. Pure.
#pragma once

#include <lockstep/plan/cost/decisions.h>

namespace lockstep::plan {

/// Seconds, for all axes along which a sum has to be finished.
struct ReductionCosts {
  double sending = 0;      ///< the part of the reductions that grows with the bytes; they take at least that
  double copying_in = 0;   ///< into buckets
  double copying_out = 0;  ///< and out of them, where gradients are divided: sums may stay
};
ReductionCosts reduction_costs(const Decisions& decisions, const TensorInfo& info, const Placements& from,
                               const Placements& to);

}  // namespace lockstep::plan
