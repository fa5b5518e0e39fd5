// The making of a call's plan: the choice of placements by the operator's rule, and the shapes of the results.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/plan.h>
#include <lockstep/global/dispatch/tensor_arguments.h>

#include <ATen/core/stack.h>

#include <vector>

namespace lockstep::global {

/// `inputs` are input_tensors() of the call. Says once for each operator that it has no rule, where that costs
/// something; Error(unsupported) in strict mode.
Plan make_plan(const c10::OperatorHandle& op, const OpInfo& info, const torch::jit::Stack& arguments,
               const std::vector<TensorArgument>& inputs, MeshState& mesh);

/// Whether operators without a rule are errors: LOCKSTEP_GLOBAL_STRICT, or what was set last.
bool strict();
void set_strict(bool strict);

}  // namespace lockstep::global
