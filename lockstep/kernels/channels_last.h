// Pictures whose channels lie together.
#pragma once

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace lockstep {

/// Lays the parameters of `module` that have four dimensions (weights of convolutions) out in channels_last: what
/// Python's module.to(memory_format=torch.channels_last) does and C++'s Module::to lacks. Sizes, names and numbers
/// stay. Convolutions then pass channels_last on, also from pictures that come in libtorch's usual order
/// (to_channels_last of a batch saves the first of them a copy). Before the module is given to DataParallel or an
/// optimizer.
///
/// From the first call on, this process computes convolutions of few positions with many weights, on the CPU with such
/// weights, as products of matrices instead of by oneDNN (docs/channels_last.md), equal up to rounding;
/// LOCKSTEP_MATRIX_CONVOLUTIONS=0 leaves them to oneDNN. Error(environment) for another value of it than 0 or 1.
/// Not while another thread uses the module.
void to_channels_last(torch::nn::Module& module);

/// `pictures`, (pictures, channels, height, width), in channels_last: a copy unless they lie so.
at::Tensor to_channels_last(const at::Tensor& pictures);

}  // namespace lockstep
