// Makes libtorch use the kernels of this room.
#pragma once

namespace lockstep::kernels {

/// Puts Lockstep's choice between oneDNN and products of matrices before libtorch's convolutions on the CPU, for the
/// rest of the process; calls after the first do nothing. LOCKSTEP_MATRIX_CONVOLUTIONS=0: never. Thread-safe.
void register_kernels();

}  // namespace lockstep::kernels
