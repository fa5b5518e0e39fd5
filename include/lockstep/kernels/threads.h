// The number of threads that compute one operation.
#pragma once

namespace lockstep {

/// Sets the number of threads with which this process computes each operation, in libtorch's own loops, oneDNN and the
/// loaded BLAS. at::set_num_threads does not reach all of these: OpenBLAS and BLIS may have thread pools of their own,
/// and OpenBLAS uses all cores by default. Sums of libtorch and BLAS depend on the number of threads, so a program
/// whose results must not depend on the machine calls this function. `lockstep train` calls it with system.threads. The
/// setting is for the whole process and overrides variables such as OMP_NUM_THREADS. Call it while no other thread
/// computes. Error(invalid_argument) for less than one thread; Error(environment) when OMP_THREAD_LIMIT allows fewer.
void set_num_threads(int threads);

}  // namespace lockstep
