// Pre- and post-hooks of autograd's gradient accumulators, installed again when a leaf has a new accumulator.
#include <lockstep/mirrored/reducer.h>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace lockstep::mirrored {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

class PreHook : public torch::autograd::FunctionPreHook {
 public:
  explicit PreHook(std::shared_ptr<std::function<void()>> before) : before_(std::move(before)) {}

  variable_list operator()(const variable_list& gradients) override {
    if (*before_ && !gradients.empty() && gradients[0].defined()) (*before_)();
    return gradients;
  }

 private:
  std::shared_ptr<std::function<void()>> before_;
};

class PostHook : public torch::autograd::FunctionPostHook {
 public:
  explicit PostHook(std::function<void(bool)> after) : after_(std::move(after)) {}

  variable_list operator()(const variable_list& outputs, const variable_list& inputs) override {
    after_(!inputs.empty() && inputs[0].defined());
    return outputs;  // an accumulator has no outputs, so this copies nothing
  }

 private:
  std::function<void(bool)> after_;
};

}  // namespace

/// The callbacks before and after on one accumulator, as long as this object exists.
class AccumulatorHooks {
 public:
  AccumulatorHooks(std::shared_ptr<Node> accumulator, const GradientCallbacks& callbacks)
      : accumulator_(std::move(accumulator)),
        key_(accumulator_->add_post_hook(std::make_unique<PostHook>(callbacks.after))) {
    if (!callbacks.before) return;
    before_ = std::make_shared<std::function<void()>>(callbacks.before);
    accumulator_->add_pre_hook(std::make_unique<PreHook>(before_));
  }
  ~AccumulatorHooks() {
    accumulator_->del_post_hook(key_);
    if (before_) *before_ = nullptr;
  }
  AccumulatorHooks(const AccumulatorHooks&) = delete;
  AccumulatorHooks& operator=(const AccumulatorHooks&) = delete;

  const std::shared_ptr<Node>& accumulator() const { return accumulator_; }

 private:
  std::shared_ptr<Node> accumulator_;
  std::uintptr_t key_;
  std::shared_ptr<std::function<void()>> before_;  ///< autograd cannot remove a pre-hook, so the function is emptied
};

struct GradientHook::State {
  at::Tensor leaf;
  GradientCallbacks callbacks;
  std::optional<AccumulatorHooks> hooks;
  std::optional<ArrivalHook> arrival;

  bool is_in_place() const { return torch::autograd::impl::try_get_grad_accumulator(leaf) == hooks->accumulator(); }
};

GradientHook::GradientHook(const at::Tensor& leaf, GradientCallbacks callbacks) : state_(std::make_shared<State>()) {
  state_->leaf = leaf;
  state_->callbacks = std::move(callbacks);
  state_->hooks.emplace(torch::autograd::impl::grad_accumulator(leaf), state_->callbacks);
  state_->arrival.emplace(leaf, [weak = std::weak_ptr<State>(state_)] {
    const auto state = weak.lock();
    if (!state || state->is_in_place()) return;
    state->callbacks.replaced();
    // The new hooks are too late for this gradient.
    if (state->callbacks.before) state->callbacks.before();
    at_end_of_backward([weak] {
      if (const auto alive = weak.lock()) alive->callbacks.after(/*got_gradient=*/true);
    });
  });
}

bool GradientHook::follow() {
  if (state_->is_in_place() || !state_->leaf.requires_grad()) return false;
  state_->hooks.emplace(torch::autograd::impl::grad_accumulator(state_->leaf), state_->callbacks);
  return true;
}

ArrivalHook::ArrivalHook(const at::Tensor& leaf, std::function<void()> arrived) : leaf_(leaf) {
  const bool required = leaf.requires_grad();
  if (!required) leaf.requires_grad_(true);  // libtorch hooks nothing else
  position_ = leaf.register_hook([arrived = std::move(arrived)](const at::Tensor& gradient) {
    if (gradient.defined()) arrived();
  });
  if (!required) leaf.requires_grad_(false);
}

ArrivalHook::~ArrivalHook() {
  if (leaf_.defined()) leaf_.remove_hook(position_);
}

void at_end_of_backward(std::function<void()> finish) {
  torch::autograd::Engine::get_default_engine().queue_callback(std::move(finish));
}

}  // namespace lockstep::mirrored
