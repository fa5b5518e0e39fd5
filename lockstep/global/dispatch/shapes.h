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
  /// Of tensors that come back, lists laid flat; an undefined one has no sizes. nullopt where nobody knows, or where
  /// results depend on the numbers.
  std::optional<std::vector<LogicalShape>> known;
  bool refused = false;  ///< libtorch does not take these arguments, or the rule does not know them: nothing is known
};

/// By libtorch's kernels for meta tensors or, where there is none, by the rule.
ResultShapes result_shapes(const c10::OperatorHandle& op, const OpInfo& info, const torch::jit::Stack& arguments,
                           const OpCall& call, const Rule* rule);

/// The shape of a tensor as it is.
LogicalShape shape_of(const at::Tensor& tensor);

/// Arguments that name the device of global tensors name `device` instead.
void replace_device(torch::jit::Stack& arguments, c10::Device device);

}  // namespace lockstep::global
