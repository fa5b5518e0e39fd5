// What LAMB and LARS share: the ratio of two norms, and the steps over all parameters.
#pragma once

#include <lockstep/compat/libtorch.h>

#include <torch/optim/optimizer.h>
#include <torch/utils.h>

#include <memory>
#include <vector>

namespace lockstep::train {

/// `ratio`, and 1 where one of the norms is 0. All have one element; nothing is read on the host.
inline at::Tensor ratio_or_1(const at::Tensor& ratio, const at::Tensor& norm, const at::Tensor& other) {
  return at::where((norm > 0).logical_and(other > 0), ratio, at::ones_like(ratio));
}

/// The state of a parameter, made when there is none.
template <typename State, typename Map>
State& state_for(Map& states, const at::Tensor& parameter) {
  auto& state = states[compat::optimizer_state_key<Map>(parameter)];
  if (!state) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

/// Calls `update` with each parameter that has a gradient, and the options of its group. Returns what `closure`, if
/// there is one, gives before.
template <typename Options, typename Update>
at::Tensor step_over(std::vector<torch::optim::OptimizerParamGroup>& groups,
                     const torch::optim::Optimizer::LossClosure& closure, const Update& update) {
  const torch::NoGradGuard no_grad;
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_gradients(true);
    loss = closure();
  }
  for (auto& group : groups) {
    const auto& options = static_cast<const Options&>(group.options());
    for (auto& parameter : group.params()) {
      if (parameter.grad().defined()) update(parameter, options);
    }
  }
  return loss;
}

}  // namespace lockstep::train
