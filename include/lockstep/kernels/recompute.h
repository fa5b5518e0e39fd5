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
#pragma once

#include <functional>
#include <memory>

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace lockstep {

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

}  // namespace lockstep
