// Mixed precision of global tensors: operators whose inputs are cast, as libtorch's autocast does it for other devices.
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/library.h>

#include <optional>

namespace lockstep::global {

/// Casts the inputs of matrix products and convolutions of global tensors to `dtype` on this thread, and those of
/// losses and other operators that need the precision to float32; nullopt: casts nothing, as at the start. The lists
/// are those of libtorch's autocast on the CPU.
void set_autocast(std::optional<c10::ScalarType> dtype);

/// Registers the casts for the autocast key of global tensors. Other operators pass that key by.
void register_autocast(torch::Library& fallback, torch::Library& aten);

}  // namespace lockstep::global
