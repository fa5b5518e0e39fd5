// The arithmetic of even splits: parts that differ by one row at most, nested over the axes of a mesh.
#include <lockstep/global/even_split.h>

#include <algorithm>

namespace lockstep::global {

Part part_of(std::int64_t size, int parts, int index) {
  const std::int64_t each = size / parts;
  const std::int64_t larger = size % parts;
  return {.begin = index * each + std::min<std::int64_t>(index, larger), .size = each + (index < larger ? 1 : 0)};
}

Part part_of(std::int64_t size, std::int64_t dim, const Placements& placements, std::span<const int> mesh_sizes,
             std::span<const int> coordinate) {
  Part part{.begin = 0, .size = size};
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (!placements[axis].is_shard(dim)) continue;
    const Part inner = part_of(part.size, mesh_sizes[axis], coordinate[axis]);
    part = {.begin = part.begin + inner.begin, .size = inner.size};
  }
  return part;
}

std::vector<int> coordinate_of(int rank, std::span<const int> mesh_sizes) {
  std::vector<int> coordinate(mesh_sizes.size());
  for (std::size_t axis = mesh_sizes.size(); axis-- > 0;) {
    coordinate[axis] = rank % mesh_sizes[axis];
    rank /= mesh_sizes[axis];
  }
  return coordinate;
}

std::vector<std::int64_t> local_sizes(std::span<const std::int64_t> sizes, const Placements& placements,
                                      std::span<const int> mesh_sizes, std::span<const int> coordinate) {
  std::vector<std::int64_t> local(sizes.begin(), sizes.end());
  for (std::size_t dim = 0; dim < local.size(); ++dim) {
    local[dim] = part_of(local[dim], static_cast<std::int64_t>(dim), placements, mesh_sizes, coordinate).size;
  }
  return local;
}

}  // namespace lockstep::global
