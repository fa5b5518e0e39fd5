// The tensors among the arguments of a call, as a flat list.
#pragma once

#include <lockstep/global/dispatch/op_info.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <optional>
#include <vector>

namespace lockstep::global {

struct TensorArgument {
  at::Tensor tensor;         ///< undefined for an optional one that was not given
  std::size_t position = 0;  ///< which argument it is, or is in
};

/// Inputs, in the order of the arguments; an in-place variant's own tensor is one of them, `out` tensors are not.
std::vector<TensorArgument> input_tensors(const OpInfo& info, const torch::jit::Stack& arguments);

/// The arguments with each input tensor replaced by the next of `locals`, which has one for each of input_tensors().
void replace_inputs(const OpInfo& info, torch::jit::Stack& arguments, const std::vector<at::Tensor>& locals);

/// Makes the arguments of an `out` variant those of the variant that returns new tensors, or, where there is none,
/// gives it empty tensors like the given ones on `device` to write to. Returns the operator to call.
const c10::OperatorHandle& without_out(const c10::OperatorHandle& op, const OpInfo& info, torch::jit::Stack& arguments,
                                       c10::Device device);

}  // namespace lockstep::global
