// The number of threads that compute one operation.
#pragma once

namespace lockstep {

/// Lets this process compute each operation with `threads` threads: libtorch's own loops, oneDNN and the BLAS that is
/// loaded, which at::set_num_threads does not all reach (an OpenBLAS or BLIS with threads of its own; as loaded,
/// OpenBLAS takes as many as there are cores). Sums of libtorch and BLAS depend on the number of threads, so a program
/// whose results must not depend on the machine calls this. `lockstep train` does, with system.threads. For the whole
/// process, at any time while no other thread computes; variables such as OMP_NUM_THREADS no longer matter.
/// Error(invalid_argument) for less than one; Error(environment) where OMP_THREAD_LIMIT allows fewer.
void set_num_threads(int threads);

}  // namespace lockstep
