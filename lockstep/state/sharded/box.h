// Boxes of a logical tensor: the part that one shard holds, and the ranks that hold it. Pure.
#pragma once

#include <lockstep/global/global_tensor.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace lockstep::state {

using BoxSizes = std::vector<std::int64_t>;

/// Rows offset[d] .. offset[d] + sizes[d] of each dimension d. A tensor without dimensions has one box, of one element.
struct Box {
  BoxSizes offset;
  BoxSizes sizes;

  std::int64_t elements() const;
  bool empty() const { return elements() == 0; }
  friend bool operator==(const Box&, const Box&) = default;
  friend auto operator<=>(const Box&, const Box&) = default;  // NOLINT(modernize-use-nullptr): a bug of clang 14
};

/// The box of a whole tensor of these sizes.
Box whole_box(const BoxSizes& sizes);

/// The box of the rank at `coordinate`. A partial value is reduced before it is saved, so it counts as replicated.
Box box_of(const BoxSizes& sizes, const Placements& placements, std::span<const int> mesh_sizes,
           std::span<const int> coordinate);

/// The intersection of two boxes with the same number of dimensions; may be empty.
Box intersection(const Box& a, const Box& b);

/// The dimensions of a dense tensor in the order in which its memory holds them, the slowest first.
std::vector<std::int64_t> memory_order(const BoxSizes& sizes, const BoxSizes& strides);

/// The boxes that make up a run of a dense tensor's memory, from element `begin` on: in the order of the memory, each
/// of them one run. At most two for each dimension.
std::vector<Box> boxes_of_run(const BoxSizes& sizes, const BoxSizes& strides, std::int64_t begin,
                              std::int64_t elements);

/// The box in pieces of at most `elements` elements or one row, cut along its first dimension with more than one row.
std::vector<Box> cut_box(const Box& box, std::int64_t elements);

/// Sizes and names of the axes of a mesh that need not exist.
struct MeshShape {
  std::vector<int> sizes;
  std::vector<std::string> names;

  int ranks() const;
  friend bool operator==(const MeshShape&, const MeshShape&) = default;
};

/// "2x4 (data, model)".
std::string to_string(const MeshShape& mesh);

/// The parts of a tensor, in order, each with the ranks that hold it.
using Holders = std::map<Box, std::vector<int>>;

/// The different boxes of a tensor that are not empty.
Holders boxes_of(const BoxSizes& sizes, const Placements& placements, const MeshShape& mesh);

}  // namespace lockstep::state
