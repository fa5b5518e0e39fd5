// The settings of libtorch's kernels: the number of threads, and the memory format channels_last.
#pragma once

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace lockstep {

// The number of threads that compute one operation.

/// Sets the number of threads with which this process computes each operation, in libtorch's own loops, oneDNN and the
/// loaded BLAS. at::set_num_threads does not reach all of these: OpenBLAS and BLIS may have separate thread pools,
/// and OpenBLAS uses all cores by default. Sums of libtorch and BLAS depend on the number of threads, so a program
/// whose results must not depend on the machine calls this function. `lockstep train` calls it with system.threads. The
/// setting is for the whole process and overrides variables such as OMP_NUM_THREADS. Call it while no other thread
/// computes. Error(invalid_argument) for less than one thread; Error(environment) when OMP_THREAD_LIMIT allows fewer.
void set_num_threads(int threads);

// The memory format channels_last for modules and batches, and faster convolutions in it.

/// Converts the parameters of `module` that have four dimensions (weights of convolutions) to channels_last, as
/// Python's module.to(memory_format=torch.channels_last) does; C++'s Module::to lacks that. Sizes, names and numbers do
/// not change. Convolutions then give channels_last outputs, also for inputs in libtorch's default memory format
/// (to_channels_last of a batch saves the first convolution a copy). Call it before the module is given to
/// DataParallel, ShardedOptimizer, distribute_module, auto_parallel or an optimizer, and not while another thread uses
/// it.
///
/// Side effect: from the first call on, this process computes, for every module, CPU convolutions with few positions
/// and many weights as matrix products, equal up to rounding (docs/channels_last.md lists them). A call with
/// LOCKSTEP_MATRIX_CONVOLUTIONS=0 in the environment turns that off. Error(environment) for a value of that variable
/// other than 0 or 1.
void to_channels_last(torch::nn::Module& module);

/// `pictures`, [N, C, H, W], in channels_last: a copy unless they have this format already. Error(invalid_argument)
/// unless the tensor has four dimensions.
at::Tensor to_channels_last(const at::Tensor& pictures);

}  // namespace lockstep
