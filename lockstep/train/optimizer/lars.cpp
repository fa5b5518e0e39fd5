// The LARS update in tensor operations without a host read: decayed gradient, trust ratio, momentum.
#include <lockstep/train/optimizer/lars.h>
#include <lockstep/train/optimizer/trust_ratio.h>

#include <torch/torch.h>

#include <memory>
#include <utility>

namespace lockstep::train {
namespace {

using LarsState = torch::optim::SGDParamState;

at::Tensor scaled_gradient(const at::Tensor& parameter, const LarsOptions& options) {
  const auto& gradient = parameter.grad();
  auto decayed = gradient.add(parameter, options.weight_decay);
  if (!options.adapt_1d && parameter.dim() <= 1) return decayed;
  const auto weight_norm = parameter.norm(2);
  const auto norm = gradient.norm(2);
  const auto ratio =
      weight_norm * options.trust_coefficient / (norm + weight_norm * options.weight_decay + options.eps);
  return decayed.mul_(ratio_or_1(ratio, weight_norm, norm));
}

}  // namespace

Lars::Lars(std::vector<torch::optim::OptimizerParamGroup> groups, const LarsOptions& defaults)
    : Optimizer(std::move(groups), std::make_unique<LarsOptions>(defaults)) {}

torch::Tensor Lars::step(LossClosure closure) {
  return step_over<LarsOptions>(param_groups_, closure, [this](at::Tensor& parameter, const LarsOptions& options) {
    auto change = scaled_gradient(parameter, options);
    if (options.momentum != 0) {
      auto& state = state_for<LarsState>(state_, parameter);
      if (state.momentum_buffer().defined()) {
        change = state.momentum_buffer().mul_(options.momentum).add_(change);
      } else {
        state.momentum_buffer(change);
      }
    }
    parameter.add_(change, -options.lr);
  });
}

}  // namespace lockstep::train
