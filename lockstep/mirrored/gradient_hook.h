// Hooks on the gradients of leaves, which stay in place when a leaf gets other memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace lockstep::mirrored {

/// Callbacks before and after backward adds to `.grad()` of a leaf. That happens at most once in a backward, however
/// often the leaf was used. Exceptions of a callback are thrown by `backward()`.
struct GradientCallbacks {
  std::function<void()> before;  ///< only when a gradient will be added; may be empty
  /// `got_gradient` is false when the graph led to the leaf but produced no gradient.
  std::function<void(bool got_gradient)> after;
  /// Called when a gradient arrives at a leaf whose memory or dtype was replaced: must call follow() of all hooks.
  std::function<void()> replaced;
};

/// Installs the callbacks on a leaf, as long as this object exists.
class GradientHook {
 public:
  GradientHook(const at::Tensor& leaf, GradientCallbacks callbacks);

  /// Moves the callbacks to the leaf's current gradient accumulator. True when the accumulator has changed: autograd
  /// makes a
  /// new one when the leaf's memory or dtype is replaced, as torch::load and Module::to do.
  bool follow();

 private:
  struct State;
  std::shared_ptr<State> state_;  ///< the leaf's own hook has a weak reference to it
};

/// Calls `arrived` when a gradient is about to be added to a leaf, also to a leaf that does not require gradients yet,
/// as long as this object exists.
class ArrivalHook {
 public:
  ArrivalHook(const at::Tensor& leaf, std::function<void()> arrived);
  ~ArrivalHook();
  ArrivalHook(ArrivalHook&& other) noexcept = default;
  ArrivalHook& operator=(ArrivalHook&&) = delete;
  ArrivalHook(const ArrivalHook&) = delete;
  ArrivalHook& operator=(const ArrivalHook&) = delete;

 private:
  at::Tensor leaf_;
  unsigned position_ = 0;
};

/// Calls `finish` when the backward that runs in this thread ends without an exception; otherwise the copies of
/// `finish` are destroyed without a call. To be called in a hook.
void at_end_of_backward(std::function<void()> finish);

}  // namespace lockstep::mirrored
