// Collectives that autograd records. Gradients are those of the sum of all ranks' losses, so that each backward is a
// collective too: that of all_reduce an all_reduce, of all_gather a reduce_scatter, of reduce_scatter an all_gather, of
// all_to_all an all_to_all.
#pragma once

#include <lockstep/comm/arguments.h>
#include <lockstep/comm/collectives.h>

#include <ATen/core/Tensor.h>

#include <string_view>

namespace lockstep::detail {

/// Whether autograd records operations on the tensor now: it requires a gradient, and recording is not turned off.
bool is_recorded(const at::Tensor& tensor);

/// Checks that the tensor belongs to no graph, for operations that are not differentiable. `instead` names the function
/// to call: "call all_gather, which does".
Problem check_unrecorded(const at::Tensor& tensor, std::string_view op, std::string_view instead);
/// The same where parameters themselves are allowed: tensors that are sent, or written in place.
Problem check_no_result(const at::Tensor& tensor, std::string_view op, std::string_view instead);

// The collective of the same name, for a tensor that is recorded.

/// In place, sum and mean only.
void recorded_all_reduce(at::Tensor& tensor, const Group& group, ReduceOp op);
at::Tensor recorded_all_gather(const at::Tensor& tensor, const Group& group);
/// Sum and mean only.
at::Tensor recorded_reduce_scatter(const at::Tensor& tensor, const Group& group, ReduceOp op);
at::Tensor recorded_all_to_all(const at::Tensor& tensor, const Group& group);

}  // namespace lockstep::detail
