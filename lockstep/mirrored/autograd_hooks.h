// The two hooks of Lockstep in a running backward. The only file that uses autograd's internals.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace torch::autograd {
struct Node;
}

namespace lockstep::mirrored {

/// What to do around each addition of a backward to `.grad()` of a leaf: at most one for one backward, however often
/// the leaf was used. What a callback throws comes out of `backward()`.
struct GradientCallbacks {
  std::function<void()> before;  ///< only when a gradient will be added; may be empty
  /// `got_gradient` is false when the graph led to the leaf but no gradient came.
  std::function<void(bool got_gradient)> after;
};

/// Callbacks on a leaf for as long as this object lives.
class GradientHook {
 public:
  GradientHook(const at::Tensor& leaf, GradientCallbacks callbacks);
  ~GradientHook();
  GradientHook(GradientHook&& other) noexcept;
  GradientHook& operator=(GradientHook&&) = delete;
  GradientHook(const GradientHook&) = delete;
  GradientHook& operator=(const GradientHook&) = delete;

 private:
  std::shared_ptr<torch::autograd::Node> accumulator_;
  std::uintptr_t key_ = 0;
  std::shared_ptr<std::function<void()>> before_;  ///< autograd cannot remove a hook that runs before; it is emptied
};

/// Runs `finish` when the backward that is running in this thread ends well; otherwise the copies of `finish` are
/// destroyed without a call. To be called from within a hook.
void at_end_of_backward(std::function<void()> finish);

}  // namespace lockstep::mirrored
