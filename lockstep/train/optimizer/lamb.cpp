// The LAMB update in tensor operations without a host read: Adam's moments, bias correction, trust ratio.
#include <lockstep/train/optimizer/lamb.h>
#include <lockstep/train/optimizer/trust_ratio.h>

#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <utility>

namespace lockstep::train {
namespace {

using LambState = torch::optim::AdamParamState;

void lamb_update(at::Tensor& parameter, LambState& state, const LambOptions& options) {
  const auto& gradient = parameter.grad();
  if (!state.exp_avg().defined()) {
    state.exp_avg(torch::zeros_like(parameter, at::MemoryFormat::Preserve));
    state.exp_avg_sq(torch::zeros_like(parameter, at::MemoryFormat::Preserve));
  }
  state.step(state.step() + 1);
  const auto t = static_cast<double>(state.step());
  auto average = state.exp_avg();
  auto square = state.exp_avg_sq();
  average.mul_(options.beta1).add_(gradient, 1 - options.beta1);
  square.mul_(options.beta2).addcmul_(gradient, gradient, 1 - options.beta2);
  const auto root = (square / (1 - std::pow(options.beta2, t))).sqrt_().add_(options.eps);
  auto direction = (average / (1 - std::pow(options.beta1, t))).div_(root);
  if (options.weight_decay != 0) direction.add_(parameter, options.weight_decay);
  if (options.adapt_1d || parameter.dim() > 1) {
    const auto weight_norm = parameter.norm(2);
    const auto norm = direction.norm(2);
    direction.mul_(ratio_or_1(weight_norm.clamp_max(options.max_weight_norm) / norm, weight_norm, norm));
  }
  parameter.add_(direction, -options.lr);
}

}  // namespace

Lamb::Lamb(std::vector<torch::optim::OptimizerParamGroup> groups, const LambOptions& defaults)
    : Optimizer(std::move(groups), std::make_unique<LambOptions>(defaults)) {}

torch::Tensor Lamb::step(LossClosure closure) {
  return step_over<LambOptions>(param_groups_, closure, [this](at::Tensor& parameter, const LambOptions& options) {
    lamb_update(parameter, state_for<LambState>(state_, parameter), options);
  });
}

}  // namespace lockstep::train
