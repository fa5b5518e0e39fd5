// What a program may change of a module's time and memory, with equal results: the number of threads of libtorch's
// kernels, the memory format channels_last, activations that are computed again during backward, and the update of
// optimizers in a few kernels.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
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

// Activation checkpointing: the activations of a block are not kept for backward, but computed again during backward.
//
//   struct Block : torch::nn::Module, lockstep::Recomputable {
//     torch::Tensor forward(const torch::Tensor& x) {
//       return lockstep::recomputed(*this, x, [this](const torch::Tensor& in) { return fc2(torch::gelu(fc1(in))) + in;
//       });
//     }
//   };
//   block->set_recomputed(true);      // or parallel.recompute: ["blocks.*"] in the configuration of a run
//
// Memory for a block's activations is needed for one block at a time, and its forward is computed twice. Results are
// equal, bit for bit: random numbers (dropout) are drawn again as before, buffers (statistics of batch norm) are
// updated once, and gradients are added in the same order.

/// The base of modules that can be recomputed: a switch that `recomputed` reads. Not thread-safe.
class Recomputable {
 public:
  void set_recomputed(bool on) { on_ = on; }
  bool is_recomputed() const { return on_; }

 protected:
  ~Recomputable() = default;

 private:
  bool on_ = false;
};

/// A part of a forward pass: from its input to its output, tensors of any shape and floating-point dtype.
using BlockForward = std::function<at::Tensor(const at::Tensor&)>;

/// The result of `forward(input)`. Where gradients are recorded, only `input` is kept, and backward calls `forward`
/// once more, which must therefore depend on nothing but `input`, the parameters and buffers of `block`, and random
/// numbers of libtorch's default generator. `block` must be owned by a shared_ptr, which is held until backward. Works
/// for ordinary and global tensors, under DataParallel and under autocast. One backward through each result; no second
/// derivatives.
at::Tensor recompute_in_backward(const std::shared_ptr<torch::nn::Module>& block, const at::Tensor& input,
                                 BlockForward forward);

/// The same if `block` is switched to be recomputed, else a plain call of `forward`.
template <typename Block, typename Forward>
auto recomputed(Block& block, const at::Tensor& input, Forward&& forward) {
  if (!block.is_recomputed()) return forward(input);
  return recompute_in_backward(block.shared_from_this(), input, std::forward<Forward>(forward));
}

// The update of libtorch's optimizers in a few kernels instead of thousands: libtorch's `step()` launches several
// kernels for each parameter.
//
//   lockstep::update(optimizer);      // for optimizer.step()

/// Why `update` calls step(): the optimizer is not SGD, Adam or AdamW, or uses amsgrad; a parameter is not on a
/// CUDA device, no float, or not dense in memory; libtorch is older than 2.4. nullopt where it launches a few kernels.
std::optional<std::string> why_no_fused_update(const torch::optim::Optimizer& optimizer);

/// Updates all parameters that have a gradient, as optimizer.step() does, with the same state: momentum, averages and
/// counts of steps, which are saved and loaded as usual. Numbers equal those of step() up to the last bits of float32,
/// as these kernels round less often. Calls step() where why_no_fused_update gives a reason, and for sparse gradients.
/// Errors of libtorch. One thread at a time.
void update(torch::optim::Optimizer& optimizer);

}  // namespace lockstep
