// Copies between global and ordinary tensors, the only operators that may mix them.
#pragma once

#include <lockstep/global/dispatch/op_info.h>

#include <ATen/core/stack.h>

namespace lockstep::global {

/// Executes a copy_ between a global and an ordinary tensor (which has the full value), or a conversion of a global
/// tensor to another device, and pushes its result. Returns false and does nothing for every other call.
bool copy_between_worlds(const OpInfo& info, const torch::jit::Stack& arguments, torch::jit::Stack& results);

}  // namespace lockstep::global
