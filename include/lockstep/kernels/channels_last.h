// The memory format channels_last for modules and batches, and faster convolutions in it.
#pragma once

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace lockstep {

/// Converts the parameters of `module` that have four dimensions (weights of convolutions) to channels_last, as
/// Python's module.to(memory_format=torch.channels_last) does; C++'s Module::to lacks that. Sizes, names and numbers
/// do not change. Convolutions then give channels_last outputs, also for pictures in libtorch's usual order
/// (to_channels_last of a batch saves the first of them a copy). Call it before the module is given to DataParallel,
/// ShardedOptimizer, distribute_module, auto_parallel or an optimizer, and not while another thread uses it.
///
/// From the first call on, this process, with whatever module, computes convolutions of few positions with many weights
/// on the CPU as products of matrices, equal up to rounding (docs/channels_last.md says which); after a call with
/// LOCKSTEP_MATRIX_CONVOLUTIONS=0 in the environment it does not. Error(environment) for another value of that than 0
/// or 1.
void to_channels_last(torch::nn::Module& module);

/// `pictures`, (pictures, channels, height, width), in channels_last: a copy unless they have this format already.
/// Error(invalid_argument) for a tensor of other than four dimensions.
at::Tensor to_channels_last(const at::Tensor& pictures);

}  // namespace lockstep
