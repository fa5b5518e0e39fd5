// The registration with libtorch of Lockstep's kernels for operators on global tensors, and their mixed precision.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

namespace lockstep::global {

/// Registers the kernel for all operators; once for each process, at the first mesh. Thread-safe.
void register_kernels();

/// Casts the inputs of matrix products and convolutions of global tensors to `dtype` on this thread, and those of
/// losses and other operators that need the precision to float32; nullopt: casts nothing, as at the start. The lists
/// are those of libtorch's autocast on the CPU.
void set_autocast(std::optional<c10::ScalarType> dtype);

}  // namespace lockstep::global
