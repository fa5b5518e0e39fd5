// The LARS update in tensor operations without a host read: decayed gradient, trust ratio, momentum.
#include <lockstep/train/optimizer/lars.h>
#include <lockstep/train/optimizer/optimizer_keys.h>
#include <lockstep/train/optimizer/trust_ratio.h>
#include <lockstep/train/part_settings.h>
#include <lockstep/train/parts.h>

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

std::unique_ptr<torch::optim::Optimizer> make_lars(const std::vector<at::Tensor>& parameters,
                                                   const OptimizerConfig& config) {
  const auto& settings = config.options.as<LarsSettings>();
  LarsOptions options;
  options.lr = config.lr;
  options.momentum = settings.momentum;
  options.weight_decay = config.weight_decay;
  options.trust_coefficient = settings.trust_coefficient;
  options.eps = settings.eps;
  options.adapt_1d = settings.adapt_1d;
  return std::make_unique<Lars>(std::vector{torch::optim::OptimizerParamGroup(parameters)}, options);
}

}  // namespace

Lars::Lars(std::vector<torch::optim::OptimizerParamGroup> groups, const LarsOptions& defaults)
    : OwnOptimizer(std::move(groups), std::make_unique<LarsOptions>(defaults)) {}

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

std::vector<std::string> Lars::remembered_tensors() const { return {"momentum_buffer"}; }

NamedTensors Lars::memory_of(const at::Tensor& parameter) const {
  return fields_of_momentum(find_state<LarsState>(*this, parameter));
}

void Lars::load_memory_of(const at::Tensor& parameter, NamedTensors& saved) {
  put_state(*this, parameter, take_momentum(saved, parameter));
}

void describe(ConfigFields& fields, LarsSettings& settings) {
  momentum_key(fields, settings.momentum);
  fields.field("trust_coefficient", settings.trust_coefficient,
               {.low = 0, .high = kMostOptimizerRate, .low_excluded = true}, "factor of the trust ratio");
  eps_key(fields, settings.eps);
  adapt_1d_key(fields, settings.adapt_1d);
}

std::vector<OptimizerPart> lars_parts() {
  return {{.name = "lars",
           .doc = "momentum, scaled to the norm of each parameter",
           .options = PartOptions::of(LarsSettings{}),
           .make = make_lars}};
}

}  // namespace lockstep::train
