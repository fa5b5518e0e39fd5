// The LAMB update in tensor operations without a host read: Adam's moments, bias correction, trust ratio.
#include <lockstep/train/optimizer/lamb.h>
#include <lockstep/train/optimizer/optimizer_keys.h>
#include <lockstep/train/optimizer/trust_ratio.h>
#include <lockstep/train/part_settings.h>
#include <lockstep/train/parts.h>

#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <utility>

namespace lockstep::train {
namespace {

using LambState = torch::optim::AdamParamState;

constexpr double kMostWeightNorm = 1e30;

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

std::unique_ptr<torch::optim::Optimizer> make_lamb(const std::vector<at::Tensor>& parameters,
                                                   const OptimizerConfig& config) {
  const auto& settings = config.options.as<LambSettings>();
  LambOptions options;
  options.lr = config.lr;
  options.beta1 = settings.betas.at(0);
  options.beta2 = settings.betas.at(1);
  options.eps = settings.eps;
  options.weight_decay = config.weight_decay;
  options.max_weight_norm = settings.max_weight_norm;
  options.adapt_1d = settings.adapt_1d;
  return std::make_unique<Lamb>(std::vector{torch::optim::OptimizerParamGroup(parameters)}, options);
}

void check_lamb(const OptimizerConfig& config) { require_two_betas(config.options.as<LambSettings>().betas); }

}  // namespace

Lamb::Lamb(std::vector<torch::optim::OptimizerParamGroup> groups, const LambOptions& defaults)
    : OwnOptimizer(std::move(groups), std::make_unique<LambOptions>(defaults)) {}

torch::Tensor Lamb::step(LossClosure closure) {
  return step_over<LambOptions>(param_groups_, closure, [this](at::Tensor& parameter, const LambOptions& options) {
    lamb_update(parameter, state_for<LambState>(state_, parameter), options);
  });
}

std::vector<std::string> Lamb::remembered_tensors() const { return {"exp_avg", "exp_avg_sq"}; }

NamedTensors Lamb::memory_of(const at::Tensor& parameter) const {
  return fields_of_moments(find_state<LambState>(*this, parameter));
}

void Lamb::load_memory_of(const at::Tensor& parameter, NamedTensors& saved) {
  put_state(*this, parameter, take_moments<LambState>(saved, parameter));
}

void describe(ConfigFields& fields, LambSettings& settings) {
  betas_key(fields, settings.betas);
  eps_key(fields, settings.eps);
  fields.field("max_weight_norm", settings.max_weight_norm, {.low = 0, .high = kMostWeightNorm, .low_excluded = true},
               "larger norms of parameters count as this");
  adapt_1d_key(fields, settings.adapt_1d);
}

std::vector<OptimizerPart> lamb_parts() {
  return {{.name = "lamb",
           .doc = "Adam, scaled to the norm of each parameter",
           .options = PartOptions::of(LambSettings{}),
           .make = make_lamb,
           .check = check_lamb}};
}

}  // namespace lockstep::train
