// The analysis of strided views: which rows of each dimension of the base a view has. Pure.
#pragma once

#include <lockstep/global/rules/op_call.h>

#include <optional>

namespace lockstep::global {

/// What becomes of one dimension of the base: rows begin, begin + step, ... are dimension `to` of the view; without
/// `to`, row `begin` alone remains and the dimension vanishes.
struct Cut {
  std::int64_t begin = 0;
  std::int64_t step = 1;
  std::int64_t rows = 1;
  std::optional<std::int64_t> to;
};

/// The view of `view`'s sizes and strides, `offset` elements behind the begin of `self`, as one cut for each dimension
/// of `self`; dimensions of the view that no cut leads to have one row. nullopt where it is something else (merged
/// dimensions, a diagonal, overlaps).
std::optional<std::vector<Cut>> as_cuts(const TensorInfo& self, const TensorInfo& view, std::int64_t offset);

}  // namespace lockstep::global
