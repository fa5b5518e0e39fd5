// The registration of this room's kernels with libtorch.
#pragma once

namespace lockstep::kernels {

/// From now on libtorch's convolutions on the CPU are products of matrices where is_faster_as_products() says so, in
/// all of the process; LOCKSTEP_MATRIX_CONVOLUTIONS=0: from now on they are not. Error(environment) for another value
/// of it than 0 or 1. Thread-safe.
void use_products_for_convolutions();

}  // namespace lockstep::kernels
