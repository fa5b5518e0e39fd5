// SGD, Adam and AdamW by libtorch's fused CUDA kernels, in one launch for all tensors with equal settings and step.
#include <lockstep/compat/fused_updates.h>
#include <lockstep/compat/libtorch.h>
#include <lockstep/kernels/step_graph.h>
#include <lockstep/kernels/tuning.h>

#include <torch/torch.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

namespace lockstep {
namespace {

namespace optim = torch::optim;

bool is_adam_like(const optim::Optimizer& optimizer) {
  return dynamic_cast<const optim::Adam*>(&optimizer) != nullptr ||
         dynamic_cast<const optim::AdamW*>(&optimizer) != nullptr;
}

bool uses_amsgrad(const optim::OptimizerOptions& options) {
  if (const auto* adam = dynamic_cast<const optim::AdamOptions*>(&options)) return adam->amsgrad();
  if (const auto* adamw = dynamic_cast<const optim::AdamWOptions*>(&options)) return adamw->amsgrad();
  return false;
}

/// The tensors of one launch: with equal settings, and for Adam an equal number of updates.
struct Together {
  std::vector<at::Tensor> parameters, gradients, first, second;  ///< momenta; or averages and squares
};

bool has_gradient(const at::Tensor& parameter) { return parameter.grad().defined(); }

template <typename State>
State& state_of(optim::Optimizer& optimizer, const at::Tensor& parameter) {
  auto& state = optimizer.state()[compat::optimizer_state_key<std::decay_t<decltype(optimizer.state())>>(parameter)];
  if (!state) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

template <typename Rate>
void update_sgd(optim::Optimizer& optimizer, const optim::OptimizerParamGroup& group,
                const std::vector<at::Tensor>& parameters, const Rate& rate) {
  const auto& options = static_cast<const optim::SGDOptions&>(group.options());
  std::map<bool, Together> by_first;
  for (const auto& parameter : parameters) {
    const auto& gradient = parameter.grad();
    if (options.momentum() == 0) {
      by_first[false].parameters.push_back(parameter);
      by_first[false].gradients.push_back(gradient);
      continue;
    }
    auto& state = state_of<optim::SGDParamState>(optimizer, parameter);
    const bool first = !state.momentum_buffer().defined();
    if (first) state.momentum_buffer(at::empty_like(gradient));
    auto& together = by_first[first];
    together.parameters.push_back(parameter);
    together.gradients.push_back(gradient);
    together.first.push_back(state.momentum_buffer());
  }
  for (const auto& [first, all] : by_first) {
    compat::fused_sgd(all.parameters, all.gradients, all.first, rate,
                      {options.weight_decay(), options.momentum(), options.dampening(), options.nesterov(), first});
  }
}

template <typename Options, typename State, typename Rate>
void update_adam(optim::Optimizer& optimizer, const optim::OptimizerParamGroup& group,
                 const std::vector<at::Tensor>& parameters, const Rate& rate, bool decoupled, const at::Tensor& step) {
  const auto& options = static_cast<const Options&>(group.options());
  std::map<std::int64_t, Together> by_step;
  for (const auto& parameter : parameters) {
    auto& state = state_of<State>(optimizer, parameter);
    if (!state.exp_avg().defined()) {
      state.exp_avg(at::zeros_like(parameter, at::MemoryFormat::Preserve));
      state.exp_avg_sq(at::zeros_like(parameter, at::MemoryFormat::Preserve));
    }
    if (!step.defined()) state.step(state.step() + 1);
    auto& together = by_step[step.defined() ? 0 : state.step()];
    together.parameters.push_back(parameter);
    together.gradients.push_back(parameter.grad());
    together.first.push_back(state.exp_avg());
    together.second.push_back(state.exp_avg_sq());
  }
  const auto [beta1, beta2] = options.betas();
  for (const auto& [number, all] : by_step) {
    const auto own =
        step.defined() ? step
                       : at::full({}, static_cast<double>(number), all.parameters.front().options().dtype(at::kFloat));
    compat::fused_adam(all.parameters, all.gradients, all.first, all.second,
                       std::vector<at::Tensor>(all.parameters.size(), own), rate,
                       {beta1, beta2, options.weight_decay(), options.eps(), decoupled});
  }
}

/// `step`: the number of the update on the device; undefined: the number in the state, which is then incremented.
template <typename Rate>
void update_group(optim::Optimizer& optimizer, const optim::OptimizerParamGroup& group,
                  const std::vector<at::Tensor>& parameters, const Rate& rate, const at::Tensor& step) {
  if (parameters.empty()) return;
  if (dynamic_cast<optim::SGD*>(&optimizer) != nullptr) {
    update_sgd(optimizer, group, parameters, rate);
  } else if (dynamic_cast<optim::AdamW*>(&optimizer) != nullptr) {
    update_adam<optim::AdamWOptions, optim::AdamWParamState>(optimizer, group, parameters, rate, true, step);
  } else {
    update_adam<optim::AdamOptions, optim::AdamParamState>(optimizer, group, parameters, rate, false, step);
  }
}

std::vector<at::Tensor> with_gradients(const optim::OptimizerParamGroup& group) {
  std::vector<at::Tensor> found;
  std::copy_if(group.params().begin(), group.params().end(), std::back_inserter(found), has_gradient);
  return found;
}

bool is_dense(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.is_non_overlapping_and_dense();
}

/// The kernels walk through parameter and gradient in the order of their memory.
bool fits(const at::Tensor& parameter) {
  const auto& gradient = parameter.grad();
  return !gradient.defined() || (is_dense(gradient) && gradient.strides() == parameter.strides() &&
                                 gradient.scalar_type() == parameter.scalar_type());
}

bool all_fit(const optim::Optimizer& optimizer) {
  return std::ranges::all_of(optimizer.param_groups(),
                             [](const auto& group) { return std::ranges::all_of(group.params(), fits); });
}

}  // namespace

std::optional<std::string> why_no_fused_update(const torch::optim::Optimizer& optimizer) {
  if (!compat::kFusedUpdates) return "this libtorch has no fused updates (2.4 and newer have)";
  if (!is_adam_like(optimizer) && dynamic_cast<const optim::SGD*>(&optimizer) == nullptr) {
    return "the optimizer is none of SGD, Adam and AdamW";
  }
  for (const auto& group : optimizer.param_groups()) {
    if (uses_amsgrad(group.options())) return "the optimizer uses amsgrad";
    for (const auto& parameter : group.params()) {
      if (!parameter.is_cuda()) return "a parameter is not on a CUDA device";
      if (!at::isFloatingType(parameter.scalar_type())) return "a parameter has no floating-point dtype";
      if (!is_dense(parameter)) return "a parameter has gaps in memory";
    }
  }
  return std::nullopt;
}

void update(torch::optim::Optimizer& optimizer) {
  if (why_no_fused_update(optimizer) || !all_fit(optimizer)) {
    optimizer.step();
    return;
  }
  const torch::NoGradGuard no_grad;
  for (const auto& group : optimizer.param_groups()) {
    update_group(optimizer, group, with_gradients(group), group.options().get_lr(), {});
  }
}

namespace detail {

RecordedUpdate::RecordedUpdate(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) {
  for (const auto& group : optimizer.param_groups()) {
    const auto on_device = group.params().front().options().dtype(at::kFloat).requires_grad(false);
    rates_.push_back(group.options().get_lr());
    rates_on_device_.push_back(at::full({}, rates_.back(), on_device));
    if (steps_.defined() || !is_adam_like(optimizer)) continue;
    std::int64_t steps = 0;
    for (const auto& [parameter, state] : optimizer.state()) {
      if (const auto* adam = dynamic_cast<const optim::AdamParamState*>(state.get())) steps = adam->step();
      if (const auto* adamw = dynamic_cast<const optim::AdamWParamState*>(state.get())) steps = adamw->step();
    }
    steps_ = at::full({}, static_cast<double>(steps), on_device);
  }
}

void RecordedUpdate::take_rates() {
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    const double rate = optimizer_.param_groups()[i].options().get_lr();
    if (rate == std::exchange(rates_[i], rate)) continue;
    rates_on_device_[i].fill_(rate);
  }
}

void RecordedUpdate::run() {
  const torch::NoGradGuard no_grad;
  if (steps_.defined()) steps_.add_(1);
  updated_.clear();
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    const auto& group = optimizer_.param_groups()[i];
    const auto parameters = with_gradients(group);
    update_group(optimizer_, group, parameters, rates_on_device_[i], steps_);
    updated_.insert(updated_.end(), parameters.begin(), parameters.end());
  }
}

void RecordedUpdate::follow_other() {
  if (steps_.defined()) steps_.add_(1);
}

void RecordedUpdate::count() {
  if (!steps_.defined()) return;
  for (const auto& parameter : updated_) {
    auto& state =
        *optimizer_.state().at(compat::optimizer_state_key<std::decay_t<decltype(optimizer_.state())>>(parameter));
    if (auto* adam = dynamic_cast<optim::AdamParamState*>(&state)) adam->step(adam->step() + 1);
    if (auto* adamw = dynamic_cast<optim::AdamWParamState*>(&state)) adamw->step(adamw->step() + 1);
  }
}

}  // namespace detail
}  // namespace lockstep
