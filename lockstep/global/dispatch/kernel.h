// The kernel of all operators on global tensors.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace lockstep::global {

/// Finds or makes the plan of the call, redistributes the inputs as the plan requires, runs the operator on this rank's
/// parts, and wraps the results. Called by libtorch.
void run_global(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace lockstep::global
