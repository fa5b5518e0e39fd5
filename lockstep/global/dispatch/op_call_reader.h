// Conversion of a call's arguments to the OpCall that the rules read.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/rules/op_call.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

namespace lockstep::global {

TensorInfo tensor_info(const at::Tensor& tensor);
TensorInfo tensor_info(const LogicalShape& shape);
TensorInfo tensor_info(std::vector<std::int64_t> sizes, c10::ScalarType dtype);

/// The call without outputs, which the caller determines.
OpCall read_call(const c10::OperatorHandle& op, const OpInfo& info, const torch::jit::Stack& arguments);

}  // namespace lockstep::global
