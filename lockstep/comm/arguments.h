// Checks of a call before its data is sent: of the arguments on this rank, and of the call between ranks, where one
// that differs becomes an error on all of them.
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

struct Call;
class GroupImpl;

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

/// The number of a dtype on the status page.
std::uint8_t number_of_dtype(at::ScalarType dtype) noexcept;

/// "float32", "bool", ...
std::string dtype_name(at::ScalarType dtype);

/// The shape of `tensor` with `factor` times the rows (dimension 0); one without dimensions counts as one row.
std::vector<std::int64_t> rows_times(const at::Tensor& tensor, std::int64_t factor);

/// The shape of `tensor` with a `divisor`-th of the rows.
std::vector<std::int64_t> rows_divided(const at::Tensor& tensor, std::int64_t divisor);

// The comparison of a call between ranks: a call that differs becomes an error on all of them.

/// The message that represents a call. All messages have the same length. Different calls have different fingerprints,
/// and so do calls on different traces (Call::trace).
std::string fingerprint(const std::string& signature, std::uint64_t trace = 0);
inline constexpr std::size_t kFingerprintBytes = 192;

/// The text that replaces the signature of a call that this rank refused to make.
std::string refusal(const std::string& signature, const std::string& problem);

/// The calls by rank, when they are not all the same: `rank 0: broadcast float32[2] from 0; ranks 1, 2: ...`.
std::optional<std::string> disagreement(const std::vector<std::string>& fingerprints);

/// Compares `signature` (op and arguments as readable text) between the ranks. A rank whose own arguments break a rule
/// passes its `problem`, and throws it as Error(invalid_argument) after the other ranks have received it. When the
/// signatures differ, every other rank throws Error(mismatch).
void agree(GroupImpl& group, const Call& call, const std::string& signature, const std::optional<std::string>& problem);

}  // namespace lockstep::detail
