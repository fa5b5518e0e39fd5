// The common code of optimizer classes: keys that several have, the trust ratio of LAMB and LARS, the base class of
// Lockstep's own, the steps over all parameters, and states of torch::optim as named tensors.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/compat/libtorch.h>
#include <lockstep/train/optimizer.h>

#include <ATen/ATen.h>
#include <torch/optim/adam.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::train {

inline constexpr double kMostOptimizerRate = 1e6;  // a larger rate would overflow float32 within some steps

inline void momentum_key(ConfigFields& fields, double& momentum) {
  fields.field("momentum", momentum, or_default(from_to_below(0, 1)), "share of the last update; null: the default");
}

inline void eps_key(ConfigFields& fields, double& eps) {
  fields.field("eps", eps, {.low = 0, .high = kMostOptimizerRate, .low_excluded = true}, "added to the denominator");
}

inline void betas_key(ConfigFields& fields, std::vector<double>& betas) {
  fields.field("betas", betas, items(2, from_to_below(0, 1)), "decay of the two moments");
}

/// A file always gives two numbers, but a program may give another count.
inline void require_two_betas(const std::vector<double>& betas) {
  if (betas.size() == 2) return;
  fail(ErrorKind::config, "config", "optimizer.betas must hold 2 numbers, it holds {}", betas.size());
}

/// `save` and `load` of torch::optim::Optimizer are not supported: see optimizer_state().
class OwnOptimizer : public torch::optim::Optimizer, public OptimizerMemory {
 public:
  using Optimizer::Optimizer;
};

/// Calls `update` with each parameter that has a gradient, and the options of its group. Calls `closure` before, if
/// there is one, and returns its result.
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

/// The options of the parameter's group; nullptr for a tensor without a group.
const torch::optim::OptimizerOptions* options_for(const torch::optim::Optimizer& optimizer,
                                                  const at::Tensor& parameter);

/// The state of a parameter, made when there is none.
template <typename State, typename Map>
State& state_for(Map& states, const at::Tensor& parameter) {
  auto& state = states[compat::optimizer_state_key<Map>(parameter)];
  if (!state) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

[[noreturn]] void fail_foreign_state(const torch::optim::OptimizerParamState& state);

/// The state of a parameter; nullptr without one. Error(unsupported) for a state of another class.
template <typename State>
const State* find_state(const torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  const auto& states = optimizer.state();
  const auto found = states.find(compat::optimizer_state_key<std::decay_t<decltype(states)>>(parameter));
  if (found == states.end() || !found->second) return nullptr;
  const auto* state = dynamic_cast<const State*>(found->second.get());
  if (state == nullptr) fail_foreign_state(*found->second);
  return state;
}

/// Without effect for nullptr.
void put_state(torch::optim::Optimizer& optimizer, const at::Tensor& parameter,
               std::unique_ptr<torch::optim::OptimizerParamState> state);

// The tensors that OptimizerMemory::memory_of returns and load_memory_of accepts.

/// An undefined tensor is not added.
void add_field(NamedTensors& fields, std::string_view name, const at::Tensor& tensor);
void add_step(NamedTensors& fields, std::int64_t step);
/// Undefined if there is no such tensor.
at::Tensor take_field(NamedTensors& fields, std::string_view name);
/// A copy of a saved tensor with the dtype, device and layout of the parameter.
at::Tensor like_parameter(const at::Tensor& saved, const at::Tensor& parameter);

/// momentum_buffer: of SGD, LARS and Muon. `state` may be nullptr.
NamedTensors fields_of_momentum(const torch::optim::SGDParamState* state);
/// nullptr if there is no such tensor.
std::unique_ptr<torch::optim::SGDParamState> take_momentum(NamedTensors& fields, const at::Tensor& parameter);

[[noreturn]] void fail_amsgrad();

/// exp_avg, exp_avg_sq and step: of Adam, AdamW and LAMB. `state` may be nullptr.
template <typename State>
NamedTensors fields_of_moments(const State* state) {
  NamedTensors fields;
  if (state == nullptr) return fields;
  if (state->max_exp_avg_sq().defined()) fail_amsgrad();
  add_field(fields, "exp_avg", state->exp_avg());
  add_field(fields, "exp_avg_sq", state->exp_avg_sq());
  add_step(fields, state->step());
  return fields;
}

/// nullptr unless all of them are there.
template <typename State>
std::unique_ptr<State> take_moments(NamedTensors& fields, const at::Tensor& parameter) {
  const auto average = take_field(fields, "exp_avg");
  const auto square = take_field(fields, "exp_avg_sq");
  const auto step = take_field(fields, kRememberedStep);
  if (!average.defined() || !square.defined() || !step.defined()) return nullptr;
  auto state = std::make_unique<State>();
  state->exp_avg(like_parameter(average, parameter));
  state->exp_avg_sq(like_parameter(square, parameter));
  state->step(step.template item<std::int64_t>());
  return state;
}

}  // namespace lockstep::train
