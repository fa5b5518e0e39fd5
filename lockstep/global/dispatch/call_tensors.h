// The tensors of a call: its arguments as a flat list, and the shapes of its results, found without computing them.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/rules/signature.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <optional>
#include <vector>

namespace lockstep::global {

struct TensorArgument {
  at::Tensor tensor;         ///< undefined for an optional one that was not given
  std::size_t position = 0;  ///< index of the argument that is the tensor or the list with it
};

/// Inputs, in the order of the arguments; the tensor of an in-place variant is one of them, `out` tensors are not.
std::vector<TensorArgument> input_tensors(const OpInfo& info, const torch::jit::Stack& arguments);

/// The arguments with each input tensor replaced by the next of `locals`, which has one for each of input_tensors().
void replace_inputs(const OpInfo& info, torch::jit::Stack& arguments, const std::vector<at::Tensor>& locals);

/// Converts the arguments of an `out` variant to those of the variant that returns new tensors. If there is none,
/// replaces the `out` tensors by empty ones on `device`. Returns the operator to call.
const c10::OperatorHandle& without_out(const c10::OperatorHandle& op, const OpInfo& info, torch::jit::Stack& arguments,
                                       c10::Device device);

struct ResultShapes {
  /// The shapes of the returned tensors, lists flattened; an undefined tensor has no sizes. nullopt when they are
  /// unknown or depend on values of tensors.
  std::optional<std::vector<LogicalShape>> known;
  bool refused = false;  ///< libtorch rejects these arguments, or the rule does not support them; `known` is empty
};

/// The shapes from libtorch's meta kernel or, if there is none, from the rule.
ResultShapes result_shapes(const c10::OperatorHandle& op, const OpInfo& info, const torch::jit::Stack& arguments,
                           const OpCall& call, const Rule* rule);

/// The logical shape of a tensor.
LogicalShape shape_of(const at::Tensor& tensor);

/// Replaces the device of global tensors by `device` in the arguments.
void replace_device(torch::jit::Stack& arguments, c10::Device device);

}  // namespace lockstep::global
