// The transition from one set of placements to another, as steps along one mesh axis each. Pure.
#pragma once

#include <lockstep/global/placement.h>

#include <cstddef>
#include <vector>

namespace lockstep::global {

/// What happens along `axis`: Shard -> Replicate is an all_gather, Shard -> Shard an all_to_all, Partial -> Replicate
/// an all_reduce, Partial -> Shard a reduce_scatter; from Replicate nothing is sent.
struct Step {
  std::size_t axis = 0;
  Placement from;
  Placement to;
  friend bool operator==(const Step&, const Step&) = default;
};

/// Steps that lead from `from` to `to`. A dimension that several axes shard can be changed on its innermost axis only,
/// so an inner one may be gathered first and divided again. A gathered value becomes partial through Replicate.
std::vector<Step> transitions(const Placements& from, const Placements& to);

/// Bytes that each rank receives when a tensor of which each rank along the axis has `bytes` after the step (or before
/// it, for a reduction) makes that step among `ranks` ranks; of a ring or anything as good.
double traffic(const Placement& from, const Placement& to, double bytes, int ranks);

}  // namespace lockstep::global
