// The analysis of strided views: the rows of each dimension of the base that a view contains. Pure.
#pragma once

#include <lockstep/global/rules/signature.h>

#include <optional>

namespace lockstep::global {

/// The mapping of one dimension of the base: rows begin, begin + step, ... are dimension `to` of the view; without
/// `to`, the dimension is removed and only row `begin` is used.
struct Cut {
  std::int64_t begin = 0;
  std::int64_t step = 1;
  std::int64_t rows = 1;
  std::optional<std::int64_t> to;
};

/// The view with `view`'s sizes and strides at `offset` elements from the start of `self`, as one cut for each
/// dimension of `self`. Dimensions of the view without a cut have one row. nullopt for other views (merged dimensions,
/// a diagonal, overlaps).
std::optional<std::vector<Cut>> as_cuts(const TensorInfo& self, const TensorInfo& view, std::int64_t offset);

}  // namespace lockstep::global
