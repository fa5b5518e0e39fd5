#include <lockstep/train/sharded/box.h>

#include <lockstep/global/even_split.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace lockstep::train {

std::int64_t Box::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

Box whole_box(const BoxSizes& sizes) { return {.offset = BoxSizes(sizes.size()), .sizes = sizes}; }

Box box_of(const BoxSizes& sizes, const Placements& placements, std::span<const int> mesh_sizes,
           std::span<const int> coordinate) {
  Box box = whole_box(sizes);
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
    const auto part = global::part_of(sizes[dim], static_cast<std::int64_t>(dim), placements, mesh_sizes, coordinate);
    box.offset[dim] = part.begin;
    box.sizes[dim] = part.size;
  }
  return box;
}

Box intersection(const Box& a, const Box& b) {
  Box both = a;
  for (std::size_t dim = 0; dim < a.sizes.size(); ++dim) {
    const auto begin = std::max(a.offset[dim], b.offset[dim]);
    const auto end = std::min(a.offset[dim] + a.sizes[dim], b.offset[dim] + b.sizes[dim]);
    both.offset[dim] = begin;
    both.sizes[dim] = std::max<std::int64_t>(end - begin, 0);
  }
  return both;
}

int MeshShape::ranks() const { return std::accumulate(sizes.begin(), sizes.end(), 1, std::multiplies<>()); }

std::string to_string(const MeshShape& mesh) {
  return fmt::format("{} ({})", fmt::join(mesh.sizes, "x"), fmt::join(mesh.names, ", "));
}

std::map<Box, std::vector<int>> boxes_of(const BoxSizes& sizes, const Placements& placements, const MeshShape& mesh) {
  std::map<Box, std::vector<int>> boxes;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    auto box = box_of(sizes, placements, mesh.sizes, global::coordinate_of(rank, mesh.sizes));
    if (!box.empty()) boxes[std::move(box)].push_back(rank);
  }
  return boxes;
}

}  // namespace lockstep::train
