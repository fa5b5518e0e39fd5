// The transition from one set of placements to another, as steps along one mesh axis each. Pure.
#pragma once

#include <lockstep/global/global_tensor.h>

#include <cstddef>
#include <vector>

namespace lockstep::global {

/// A change of placement along `axis`: Shard -> Replicate is an all_gather, Shard -> Shard an all_to_all, Partial ->
/// Replicate an all_reduce, Partial -> Shard a reduce_scatter; from Replicate nothing is sent.
struct Step {
  std::size_t axis = 0;
  Placement from;
  Placement to;
  friend bool operator==(const Step&, const Step&) = default;
};

/// The steps from `from` to `to`. A dimension that several axes shard can be changed on its innermost axis only, so an
/// inner axis may be gathered first and sharded again. A sharded value becomes partial via Replicate.
std::vector<Step> transitions(const Placements& from, const Placements& to);

/// The bytes that each rank receives in that step among `ranks` ranks, with a bandwidth-optimal algorithm (such as a
/// ring). `bytes` is the size of a rank's part if it is not sharded along this axis.
double traffic(const Placement& from, const Placement& to, double bytes, int ranks);

}  // namespace lockstep::global
