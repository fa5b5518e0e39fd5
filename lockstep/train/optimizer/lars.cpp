// The LARS optimizer: momentum with gradients scaled for each parameter to the norm of its weights. (You, Gitman and
// Ginsburg, "Large Batch Training of Convolutional Networks", 2017, algorithm 1.)
#include <lockstep/train/optimizer/own_optimizer.h>
#include <lockstep/train/part_settings.h>
#include <lockstep/train/parts.h>

#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

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
/// without momentum. For the rest see Lamb (lamb.cpp).
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

void add_lars(Parts& parts) {
  parts.optimizers.push_back({.name = "lars",
                              .doc = "momentum, scaled to the norm of each parameter",
                              .options = PartOptions::of(LarsSettings{}),
                              .make = make_lars});
}

}  // namespace lockstep::train
