// The registration of the kernels of this folder with libtorch.
#pragma once

namespace lockstep::kernels {

/// Makes libtorch compute CPU convolutions as matrix products where is_faster_as_products(), from now on and in the
/// whole process; with LOCKSTEP_MATRIX_CONVOLUTIONS=0 turns that off. Error(environment) for a value of that variable
/// other than 0 or 1. Thread-safe.
void use_products_for_convolutions();

}  // namespace lockstep::kernels
