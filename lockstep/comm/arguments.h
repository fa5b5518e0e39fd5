// Checks of a collective's arguments before anything is sent, and their text in messages.
#pragma once

#include <lockstep/comm/collectives.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// A text that describes the first broken rule, or nothing. Checks are chained: `first_of(check_a(), check_b())`.
using Problem = std::optional<std::string>;

template <typename... Rest>
Problem first_of(Problem first, Rest... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return first;
  } else {
    return first ? first : first_of(std::move(rest)...);
  }
}

/// Checks that the tensor is defined, dense, and of a dtype that can be moved.
Problem check_tensor(const at::Tensor& tensor, std::string_view what);
/// The same for a tensor that is written: no two of its elements may share memory.
Problem check_written(const at::Tensor& tensor, std::string_view what);
/// Checks that complex numbers are only added up or averaged, and that integers and bool are not averaged.
Problem check_reduction(const at::Tensor& tensor, ReduceOp op);
/// Checks that dimension 0 is divisible by the size of the group.
Problem check_rows(const at::Tensor& tensor, int size);
/// Checks that `output` is a contiguous tensor of `elements` elements of `like`'s dtype, on its device.
Problem check_output(const at::Tensor& output, const at::Tensor& like, std::int64_t elements);
/// Checks that `rank` is in the group; `what` is "root", "source", ...
Problem check_rank(int rank, int size, std::string_view what);
/// Checks that `peer` is another rank of the group, and that the tag is in 0..kMaxTag.
Problem check_message(int peer, int self, int size, int tag, std::string_view what);

/// "float32[2, 3]", "float32[2, 3] on cuda", "undefined".
std::string describe(const at::Tensor& tensor);

/// "float32", "bool", ...
std::string dtype_name(at::ScalarType dtype);

/// The shape of `tensor` with `factor` times the rows (dimension 0); one without dimensions counts as one row.
std::vector<std::int64_t> rows_times(const at::Tensor& tensor, std::int64_t factor);

/// The shape of `tensor` with a `divisor`-th of the rows.
std::vector<std::int64_t> rows_divided(const at::Tensor& tensor, std::int64_t divisor);

}  // namespace lockstep::detail
