// The shapes of an operator's results, found without computing the results.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/rules/signature.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/core/stack.h>

#include <optional>
#include <vector>

namespace lockstep::global {

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
