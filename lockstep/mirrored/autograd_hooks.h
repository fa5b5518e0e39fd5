// The two kinds of hooks in a running backward. The only file of this folder that uses autograd's internals.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace torch::autograd {
struct Node;
}

namespace lockstep::mirrored {

/// Callbacks before and after backward adds to `.grad()` of a leaf. That happens at most once in a backward, however
/// often the leaf was used. Exceptions of a callback are thrown by `backward()`.
struct GradientCallbacks {
  std::function<void()> before;  ///< only when a gradient will be added; may be empty
  /// `got_gradient` is false when the graph led to the leaf but no gradient came.
  std::function<void(bool got_gradient)> after;
};

/// Installs the callbacks on a leaf, as long as this object exists.
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
  std::shared_ptr<std::function<void()>> before_;  ///< autograd cannot remove a pre-hook, so the function is emptied
};

/// Calls `finish` when the backward that runs in this thread ends without an exception; otherwise the copies of
/// `finish` are destroyed without a call. To be called in a hook.
void at_end_of_backward(std::function<void()> finish);

}  // namespace lockstep::mirrored
