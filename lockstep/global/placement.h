// The arithmetic of placements: the balanced division of dimensions, which gives the part of a dimension, and of a
// tensor, on each rank; and the transition from one set of placements to another, as steps along one mesh axis each.
// Pure.
#pragma once

#include <lockstep/global/global_tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::global {

struct Part {
  std::int64_t begin = 0;
  std::int64_t size = 0;
  friend bool operator==(const Part&, const Part&) = default;
};

/// The `index`-th of `parts` parts of `size` rows: the first `size % parts` of them have one row more.
Part part_of(std::int64_t size, int parts, int index);

/// The part of dimension `dim` (of `size` rows) on the rank at `coordinate` of a mesh of `mesh_sizes`.
Part part_of(std::int64_t size, std::int64_t dim, const Placements& placements, std::span<const int> mesh_sizes,
             std::span<const int> coordinate);

/// The coordinate of `rank` in a mesh of these sizes, in row-major order (the last axis varies fastest).
std::vector<int> coordinate_of(int rank, std::span<const int> mesh_sizes);

/// The sizes of the part on the rank at `coordinate`, of a tensor of `sizes`.
std::vector<std::int64_t> local_sizes(std::span<const std::int64_t> sizes, const Placements& placements,
                                      std::span<const int> mesh_sizes, std::span<const int> coordinate);

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
