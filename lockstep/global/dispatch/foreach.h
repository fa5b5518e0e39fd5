// _foreach_ operators of libtorch's optimizers, executed as one operator call for each tensor.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace lockstep::global {

/// Executes a call of an operator whose name begins with _foreach_. Called by libtorch.
void run_foreach(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace lockstep::global
