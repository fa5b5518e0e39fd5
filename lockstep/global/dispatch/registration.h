// The registration of Lockstep's kernels for operators on global tensors with libtorch.
#pragma once

namespace lockstep::global {

/// Registers the kernel for all operators; once for each process, at the first mesh. Thread-safe.
void register_kernels();

}  // namespace lockstep::global
