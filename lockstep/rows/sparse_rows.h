// Rows of a table by their ids, and their sums: of the occurrences of an id in a batch, and over ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace lockstep::rows {

/// Ids ascend, each once; `values` has `dim` numbers for each.
struct SparseRows {
  std::vector<std::int64_t> ids;
  std::vector<float> values;
};

/// The same, as a view of memory that the caller owns.
struct SparseRowsView {
  std::span<const std::int64_t> ids;
  const float* values = nullptr;
};

/// The sum of the rows of each id, ((0 + v0) + v1) + ..., in order of occurrence: the order of libtorch's dense
/// gradient of an embedding. `values` has `dim` numbers for each of `ids`.
SparseRows sum_by_id(std::span<const std::int64_t> ids, const float* values, std::size_t dim);

/// Called with one block of rows after another: their ids, and `dim` numbers for each, which it may change.
using UseRows = std::function<void(std::span<const std::int64_t> ids, float* values)>;

/// The sum over ranks of the rows of each id that any rank has, where a rank adds +0.0 for an id that it lacks: the
/// result of a reduction of whole tables. The order is the binary tree over the ranks in which `left_of(n)` of n are on
/// the left (comm/reduction/kernels.h). `divisor` is 1, or the number of ranks; each sum is divided by it at the end.
/// `use` gets the sums in the order of ids, in blocks that fit into the caches.
void sum_blocks_over_ranks(std::span<const SparseRowsView> ranks, std::size_t dim,
                           const std::function<int(int)>& left_of, float divisor, const UseRows& use);

/// The same sums in one piece.
SparseRows sum_over_ranks(std::span<const SparseRowsView> ranks, std::size_t dim,
                          const std::function<int(int)>& left_of, float divisor);

}  // namespace lockstep::rows
