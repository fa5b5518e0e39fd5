// Errors for operations that a traced step must not use, because its tensors have no values.
#pragma once

#include <lockstep/global/dispatch/op_info.h>

#include <ATen/core/stack.h>

namespace lockstep::plan {

/// Error(unsupported) for an operator that reads a value of a tensor (`item()`); names it and an alternative.
[[noreturn]] void refuse_to_tell_numbers(const global::OpInfo& info);

/// Error(unsupported) for an operator whose result shape is unknown or depends on values.
[[noreturn]] void refuse_unknown_shape(const global::OpInfo& info);

/// Handles a copy of an ordinary tensor to a tensor without memory: nothing is copied; pushes the destination and
/// returns true. Error(unsupported) for a copy in the other direction. Returns false for other copies, which are
/// ordinary operators.
bool copy_of_ordinary(const global::OpInfo& info, const torch::jit::Stack& arguments, torch::jit::Stack& results);

}  // namespace lockstep::plan
