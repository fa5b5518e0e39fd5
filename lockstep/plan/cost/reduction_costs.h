// Lower bounds of the cost of reducing one gradient by itself. Pure.
#pragma once

#include <lockstep/plan/cost/decisions.h>

namespace lockstep::plan {

/// Costs in seconds, for all axes on which a partial gradient must be reduced.
struct ReductionCosts {
  double sending = 0;      ///< the bandwidth part of the reductions, a lower bound of their time
  double copying_in = 0;   ///< copies into buckets
  double copying_out = 0;  ///< copies out of buckets, for sharded gradients only: sums may stay in the bucket
};
ReductionCosts reduction_costs(const Decisions& decisions, const TensorInfo& info, const Placements& from,
                               const Placements& to);

}  // namespace lockstep::plan
