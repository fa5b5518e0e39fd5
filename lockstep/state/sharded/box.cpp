// Box arithmetic: intersections, the part of a placement, runs of strided memory as boxes, cuts into smaller boxes.
#include <lockstep/state/sharded/box.h>

#include <lockstep/global/placement.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace lockstep::state {
namespace {

/// Appends the boxes of a run inside `around`, whose dimensions from order[level] on are whole and hold the run.
void append_boxes(std::vector<Box>& boxes, Box around, const std::vector<std::int64_t>& order, std::size_t level,
                  std::int64_t begin, std::int64_t end) {
  if (begin == end) return;
  if (level == order.size()) return boxes.push_back(std::move(around));
  const auto dim = static_cast<std::size_t>(order[level]);
  std::int64_t inner = 1;
  for (auto next = level + 1; next < order.size(); ++next) inner *= around.sizes[static_cast<std::size_t>(order[next])];
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    Box box = around;
    box.offset[dim] += first;
    box.sizes[dim] = count;
    return box;
  };
  const auto row = begin / inner;
  if (begin % inner != 0 || end - begin < inner) {  // a part of the first row
    const auto stop = std::min(end, (row + 1) * inner);
    append_boxes(boxes, rows(row, 1), order, level + 1, begin - row * inner, stop - row * inner);
    return append_boxes(boxes, std::move(around), order, level, stop, end);
  }
  const auto whole = end / inner - row;
  boxes.push_back(rows(row, whole));
  append_boxes(boxes, std::move(around), order, level, (row + whole) * inner, end);
}

}  // namespace

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

std::vector<std::int64_t> memory_order(const BoxSizes& sizes, const BoxSizes& strides) {
  std::vector<std::int64_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  // A dimension of one row may have any stride.
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::int64_t dim) {
    const auto at = static_cast<std::size_t>(dim);
    return sizes[at] == 1 ? std::numeric_limits<std::int64_t>::max() : strides[at];
  });
  return order;
}

std::vector<Box> boxes_of_run(const BoxSizes& sizes, const BoxSizes& strides, std::int64_t begin,
                              std::int64_t elements) {
  std::vector<Box> boxes;
  append_boxes(boxes, whole_box(sizes), memory_order(sizes, strides), 0, begin, begin + elements);
  return boxes;
}

std::vector<Box> cut_box(const Box& box, std::int64_t elements) {
  const auto longer = std::ranges::find_if(box.sizes, [](std::int64_t rows) { return rows > 1; });
  if (box.elements() <= elements || longer == box.sizes.end()) return {box};
  const auto dim = static_cast<std::size_t>(longer - box.sizes.begin());
  const auto rows = std::max<std::int64_t>(elements / (box.elements() / *longer), 1);
  std::vector<Box> pieces;
  for (std::int64_t first = 0; first < *longer; first += rows) {
    pieces.push_back(box);
    pieces.back().offset[dim] += first;
    pieces.back().sizes[dim] = std::min(rows, *longer - first);
  }
  return pieces;
}

int MeshShape::ranks() const { return std::accumulate(sizes.begin(), sizes.end(), 1, std::multiplies<>()); }

std::string to_string(const MeshShape& mesh) {
  return fmt::format("{} ({})", fmt::join(mesh.sizes, "x"), fmt::join(mesh.names, ", "));
}

Holders boxes_of(const BoxSizes& sizes, const Placements& placements, const MeshShape& mesh) {
  Holders boxes;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    auto box = box_of(sizes, placements, mesh.sizes, global::coordinate_of(rank, mesh.sizes));
    if (!box.empty()) boxes[std::move(box)].push_back(rank);
  }
  return boxes;
}

}  // namespace lockstep::state
