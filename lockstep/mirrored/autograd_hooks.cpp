#include <lockstep/mirrored/autograd_hooks.h>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <utility>

namespace lockstep::mirrored {
namespace {

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

GradientHook::GradientHook(const at::Tensor& leaf, GradientCallbacks callbacks)
    : accumulator_(torch::autograd::impl::grad_accumulator(leaf)),
      key_(accumulator_->add_post_hook(std::make_unique<PostHook>(std::move(callbacks.after)))) {
  if (!callbacks.before) return;
  before_ = std::make_shared<std::function<void()>>(std::move(callbacks.before));
  accumulator_->add_pre_hook(std::make_unique<PreHook>(before_));
}

GradientHook::~GradientHook() {
  if (accumulator_) accumulator_->del_post_hook(key_);
  if (before_) *before_ = nullptr;
}

GradientHook::GradientHook(GradientHook&& other) noexcept = default;

void at_end_of_backward(std::function<void()> finish) {
  torch::autograd::Engine::get_default_engine().queue_callback(std::move(finish));
}

}  // namespace lockstep::mirrored
