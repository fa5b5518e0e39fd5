// Errors for operations that a planned step cannot do, because its tensors have no numbers.
#pragma once

#include <lockstep/global/dispatch/op_info.h>

#include <ATen/core/stack.h>

namespace lockstep::plan {

/// Error(unsupported) that names the operator and what to do instead: it takes a number out of a tensor.
[[noreturn]] void refuse_to_tell_numbers(const global::OpInfo& info);

/// The shape of its result depends on numbers, or nothing tells it.
[[noreturn]] void refuse_unknown_shape(const global::OpInfo& info);

/// A copy of an ordinary tensor's numbers into a tensor without memory: pushes that, as nothing is to be done, and
/// returns true. Refuses the other way. Other copies are operators like others: false.
bool copy_of_ordinary(const global::OpInfo& info, const torch::jit::Stack& arguments, torch::jit::Stack& results);

}  // namespace lockstep::plan
