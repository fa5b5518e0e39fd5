// The planner of a call: it chooses placements by the operator's rule, and determines the shapes of the results.
#pragma once

#include <lockstep/global/dispatch/call_tensors.h>
#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/plan.h>
#include <lockstep/global/operator_strategy.h>

#include <ATen/core/stack.h>

#include <vector>

namespace lockstep::global {

/// `inputs` are input_tensors() of the call. If an operator has no rule and gathering is necessary, logs that once for
/// each operator; Error(unsupported) in strict mode. A `strategy` is followed where the rule allows it for these sizes.
Plan make_plan(const c10::OperatorHandle& op, const OpInfo& info, const torch::jit::Stack& arguments,
               const std::vector<TensorArgument>& inputs, MeshState& mesh, const OperatorStrategy* strategy = nullptr);

/// The reaction to calls that gather their inputs.
enum class Strictness {
  warn,    ///< a warning where there is no rule
  refuse,  ///< Error(unsupported) where there is no rule
  list,    ///< a line in the log for each combination of placements, even if the rule has no better choice
};
/// The value of LOCKSTEP_GLOBAL_STRICT, or of the last set_strict(). Error(environment) for an invalid value.
Strictness strictness();
void set_strict(bool strict);

}  // namespace lockstep::global
