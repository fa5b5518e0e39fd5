// The balanced division of dimensions: the part of a dimension, and of a tensor, on each rank. Pure.
#pragma once

#include <lockstep/global/global_tensor.h>

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

}  // namespace lockstep::global
