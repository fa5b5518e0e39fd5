// The optimizers that scale each parameter's update to the norm of its weights: LARS, which scales gradients with
// momentum (You, Gitman and Ginsburg, "Large Batch Training of Convolutional Networks", 2017, algorithm 1), and LAMB,
// which scales Adam's update (You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes",
// ICLR 2020, algorithm 2).
#include <lockstep/train/optimizer/own_optimizer.h>
#include <lockstep/train/part_settings.h>
#include <lockstep/train/parts.h>

#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

void adapt_1d_key(ConfigFields& fields, bool& adapt_1d) {
  fields.field("adapt_1d", adapt_1d, anything(),
               "false: parameters of one dimension are updated without the trust ratio");
}

/// `ratio`, and 1 where one of the norms is 0. All have one element; nothing is read on the host.
at::Tensor ratio_or_1(const at::Tensor& ratio, const at::Tensor& norm, const at::Tensor& other) {
  return at::where((norm > 0).logical_and(other > 0), ratio, at::ones_like(ratio));
}

struct LarsOptions : torch::optim::OptimizerCloneableOptions<LarsOptions>, ScaledRate {
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 0;
  double trust_coefficient = 0.001;
  double eps = 1e-8;
  bool adapt_1d = true;  ///< false: r = 1 for parameters of at most one dimension

  double get_lr() const override { return lr; }
  void set_lr(const double rate) override { lr = rate; }
};

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

/// For each parameter w with the gradient g (| | is the 2-norm of the whole parameter):
///   r = trust_coefficient |w| / (|g| + weight_decay |w| + eps), and 1 where |w| or |g| is 0
///   v = momentum v + r (g + weight_decay w), where v is 0 before the first step
///   w = w - lr v
/// Other than in the paper, lr is not part of v, as in torch::optim::SGD: with r = 1 the two are the same, and a
/// schedule has the same meaning. The state of a parameter is torch::optim::SGDParamState: v is momentum_buffer, none
/// without momentum. For the rest see Lamb.
class Lars : public OwnOptimizer {
 public:
  Lars(std::vector<torch::optim::OptimizerParamGroup> groups, const LarsOptions& defaults)
      : OwnOptimizer(std::move(groups), std::make_unique<LarsOptions>(defaults)) {}

  torch::Tensor step(LossClosure closure = nullptr) override {
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

  std::vector<std::string> remembered_tensors() const override { return {"momentum_buffer"}; }

  NamedTensors memory_of(const at::Tensor& parameter) const override {
    return fields_of_momentum(find_state<LarsState>(*this, parameter));
  }

  void load_memory_of(const at::Tensor& parameter, NamedTensors& saved) override {
    put_state(*this, parameter, take_momentum(saved, parameter));
  }
};

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

void describe(ConfigFields& fields, LarsSettings& settings) {
  momentum_key(fields, settings.momentum);
  fields.field("trust_coefficient", settings.trust_coefficient,
               {.low = 0, .high = kMostOptimizerRate, .low_excluded = true}, "factor of the trust ratio");
  eps_key(fields, settings.eps);
  adapt_1d_key(fields, settings.adapt_1d);
}

namespace {

struct LambOptions : torch::optim::OptimizerCloneableOptions<LambOptions>, ScaledRate {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double max_weight_norm = 10;  ///< gamma_u of the paper; its gamma_l is 0
  bool adapt_1d = true;         ///< false: r = 1 for parameters of at most one dimension

  double get_lr() const override { return lr; }
  void set_lr(const double rate) override { lr = rate; }
};

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

/// In step t, for each parameter w with the gradient g (| | is the 2-norm of the whole parameter):
///   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
///   u = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w
///   r = min(|w|, max_weight_norm) / |u|, and 1 where |w| or |u| is 0
///   w = w - lr r u
/// The state of a parameter is torch::optim::AdamParamState: m is exp_avg, v is exp_avg_sq. Nothing is read on the
/// host, so a step can be traced. Global tensors have global norms. Parameters must not be pieces of others: their
/// norms would be wrong. `step` is for parameters with dense gradients; `save` and `load` are not supported, see
/// optimizer_state().
class Lamb : public OwnOptimizer {
 public:
  Lamb(std::vector<torch::optim::OptimizerParamGroup> groups, const LambOptions& defaults)
      : OwnOptimizer(std::move(groups), std::make_unique<LambOptions>(defaults)) {}

  torch::Tensor step(LossClosure closure = nullptr) override {
    return step_over<LambOptions>(param_groups_, closure, [this](at::Tensor& parameter, const LambOptions& options) {
      lamb_update(parameter, state_for<LambState>(state_, parameter), options);
    });
  }

  std::vector<std::string> remembered_tensors() const override { return {"exp_avg", "exp_avg_sq"}; }

  NamedTensors memory_of(const at::Tensor& parameter) const override {
    return fields_of_moments(find_state<LambState>(*this, parameter));
  }

  void load_memory_of(const at::Tensor& parameter, NamedTensors& saved) override {
    put_state(*this, parameter, take_moments<LambState>(saved, parameter));
  }
};

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

void describe(ConfigFields& fields, LambSettings& settings) {
  betas_key(fields, settings.betas);
  eps_key(fields, settings.eps);
  fields.field("max_weight_norm", settings.max_weight_norm, {.low = 0, .high = kMostWeightNorm, .low_excluded = true},
               "larger norms of parameters count as this");
  adapt_1d_key(fields, settings.adapt_1d);
}

void add_layerwise(Parts& parts) {
  parts.optimizers.push_back({.name = "lars",
                              .doc = "momentum, scaled to the norm of each parameter",
                              .options = PartOptions::of(LarsSettings{}),
                              .make = make_lars});
  parts.optimizers.push_back({.name = "lamb",
                              .doc = "Adam, scaled to the norm of each parameter",
                              .options = PartOptions::of(LambSettings{}),
                              .make = make_lamb,
                              .check = check_lamb});
}

}  // namespace lockstep::train
