// The table of optimizer parts: keys, checks and constructors of SGD, Adam, AdamW, RMSprop, Adagrad, LARS and LAMB.
#include <lockstep/base/error.h>
#include <lockstep/train/optimizer/lamb.h>
#include <lockstep/train/optimizer/lars.h>
#include <lockstep/train/optimizer/optimizer_parts.h>
#include <lockstep/train/optimizer/row_optimizer_parts.h>
#include <lockstep/train/part_settings.h>

#include <torch/torch.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <tuple>

namespace lockstep::train {
namespace {

namespace optim = torch::optim;

using Tensors = std::vector<at::Tensor>;
using Optimizer = std::unique_ptr<optim::Optimizer>;

constexpr double kMostOptimizerRate = 1e6;  // more would leave float32 within some steps
constexpr double kMostOptimizerFactor = 1e30;

void momentum_key(ConfigFields& fields, double& momentum) {
  fields.field("momentum", momentum, or_default(from_to_below(0, 1)), "share of the last update; null: the default");
}

void eps_key(ConfigFields& fields, double& eps) {
  fields.field("eps", eps, {.low = 0, .high = kMostOptimizerRate, .low_excluded = true}, "added to the denominator");
}

void betas_key(ConfigFields& fields, std::vector<double>& betas) {
  fields.field("betas", betas, items(2, from_to_below(0, 1)), "decay of the two moments");
}

void adapt_1d_key(ConfigFields& fields, bool& adapt_1d) {
  fields.field("adapt_1d", adapt_1d, anything(),
               "false: parameters of one dimension are updated without the trust ratio");
}

Optimizer make_sgd(const Tensors& parameters, const OptimizerConfig& config) {
  const auto& settings = config.options.as<SgdSettings>();
  return std::make_unique<optim::SGD>(parameters, optim::SGDOptions(config.lr)
                                                      .momentum(settings.momentum)
                                                      .dampening(settings.dampening)
                                                      .nesterov(settings.nesterov)
                                                      .weight_decay(config.weight_decay));
}

void check_sgd(const OptimizerConfig& config) {
  const auto& settings = config.options.as<SgdSettings>();
  if (config.name == "momentum" && settings.momentum == 0) {
    fail(ErrorKind::config, "config",
         "optimizer.momentum is 0 with optimizer.name momentum; use optimizer.name=sgd or a momentum above 0");
  }
  if (settings.nesterov && (settings.momentum == 0 || settings.dampening != 0)) {
    fail(ErrorKind::config, "config",
         "optimizer.nesterov needs optimizer.momentum above 0 and optimizer.dampening 0; they are {} and {}",
         settings.momentum, settings.dampening);
  }
}

// A file cannot give another number; a program can.
void require_two_betas(const std::vector<double>& betas) {
  if (betas.size() == 2) return;
  fail(ErrorKind::config, "config", "optimizer.betas must hold 2 numbers, it holds {}", betas.size());
}

void check_adam(const OptimizerConfig& config) { require_two_betas(config.options.as<AdamSettings>().betas); }
void check_lamb(const OptimizerConfig& config) { require_two_betas(config.options.as<LambSettings>().betas); }

template <typename Class, typename Options>
Optimizer make_adam(const Tensors& parameters, const OptimizerConfig& config) {
  const auto& settings = config.options.as<AdamSettings>();
  return std::make_unique<Class>(parameters, Options(config.lr)
                                                 .betas(std::make_tuple(settings.betas.at(0), settings.betas.at(1)))
                                                 .eps(settings.eps)
                                                 .weight_decay(config.weight_decay));
}

Optimizer make_rmsprop(const Tensors& parameters, const OptimizerConfig& config) {
  const auto& settings = config.options.as<RmspropSettings>();
  return std::make_unique<optim::RMSprop>(parameters, optim::RMSpropOptions(config.lr)
                                                          .alpha(settings.alpha)
                                                          .eps(settings.eps)
                                                          .momentum(settings.momentum)
                                                          .centered(settings.centered)
                                                          .weight_decay(config.weight_decay));
}

Optimizer make_adagrad(const Tensors& parameters, const OptimizerConfig& config) {
  const auto& settings = config.options.as<AdagradSettings>();
  return std::make_unique<optim::Adagrad>(parameters, optim::AdagradOptions(config.lr)
                                                          .lr_decay(settings.lr_decay)
                                                          .initial_accumulator_value(settings.initial_accumulator)
                                                          .eps(settings.eps)
                                                          .weight_decay(config.weight_decay));
}

Optimizer make_lars(const Tensors& parameters, const OptimizerConfig& config) {
  const auto& settings = config.options.as<LarsSettings>();
  LarsOptions options;
  options.lr = config.lr;
  options.momentum = settings.momentum;
  options.weight_decay = config.weight_decay;
  options.trust_coefficient = settings.trust_coefficient;
  options.eps = settings.eps;
  options.adapt_1d = settings.adapt_1d;
  return std::make_unique<Lars>(std::vector{optim::OptimizerParamGroup(parameters)}, options);
}

Optimizer make_lamb(const Tensors& parameters, const OptimizerConfig& config) {
  const auto& settings = config.options.as<LambSettings>();
  LambOptions options;
  options.lr = config.lr;
  options.beta1 = settings.betas.at(0);
  options.beta2 = settings.betas.at(1);
  options.eps = settings.eps;
  options.weight_decay = config.weight_decay;
  options.max_weight_norm = settings.max_weight_norm;
  options.adapt_1d = settings.adapt_1d;
  return std::make_unique<Lamb>(std::vector{optim::OptimizerParamGroup(parameters)}, options);
}

}  // namespace

void describe(ConfigFields& fields, SgdSettings& settings) {
  momentum_key(fields, settings.momentum);
  fields.field("nesterov", settings.nesterov, anything(), "Nesterov's form");
  fields.field("dampening", settings.dampening, between(0, 1), "share of the gradient left out of the momentum");
}

void describe(ConfigFields& fields, AdamSettings& settings) {
  betas_key(fields, settings.betas);
  eps_key(fields, settings.eps);
}

void describe(ConfigFields& fields, RmspropSettings& settings) {
  fields.field("alpha", settings.alpha, from_to_below(0, 1), "decay of the mean square");
  eps_key(fields, settings.eps);
  momentum_key(fields, settings.momentum);
  fields.field("centered", settings.centered, anything(),
               "divide by the gradient's standard deviation, not by the root of its mean square");
}

void describe(ConfigFields& fields, AdagradSettings& settings) {
  fields.field("lr_decay", settings.lr_decay, between(0, kMostOptimizerRate),
               "step t has the learning rate lr / (1 + (t - 1) * lr_decay)");
  fields.field("initial_accumulator", settings.initial_accumulator, between(0, kMostOptimizerRate),
               "the sum of squares before the first step");
  eps_key(fields, settings.eps);
}

void describe(ConfigFields& fields, LarsSettings& settings) {
  momentum_key(fields, settings.momentum);
  fields.field("trust_coefficient", settings.trust_coefficient,
               {.low = 0, .high = kMostOptimizerRate, .low_excluded = true}, "factor of the trust ratio");
  eps_key(fields, settings.eps);
  adapt_1d_key(fields, settings.adapt_1d);
}

void describe(ConfigFields& fields, LambSettings& settings) {
  betas_key(fields, settings.betas);
  eps_key(fields, settings.eps);
  fields.field("max_weight_norm", settings.max_weight_norm,
               {.low = 0, .high = kMostOptimizerFactor, .low_excluded = true},
               "larger norms of parameters count as this");
  adapt_1d_key(fields, settings.adapt_1d);
}

std::vector<OptimizerPart> optimizer_parts() {
  std::vector<OptimizerPart> parts{{.name = "sgd",
                                    .doc = "gradient descent",
                                    .options = PartOptions::of(SgdSettings{}),
                                    .make = make_sgd,
                                    .elementwise = true,
                                    .check = check_sgd},
                                   {.name = "momentum",
                                    .doc = "gradient descent with momentum",
                                    .options = PartOptions::of(SgdSettings{.momentum = 0.9}),
                                    .make = make_sgd,
                                    .elementwise = true,
                                    .check = check_sgd},
                                   {.name = "adam",
                                    .doc = "moments of the gradient",
                                    .options = PartOptions::of(AdamSettings{}),
                                    .make = make_adam<optim::Adam, optim::AdamOptions>,
                                    .elementwise = true,
                                    .check = check_adam},
                                   {.name = "adamw",
                                    .doc = "Adam with weight decay apart from the gradient",
                                    .options = PartOptions::of(AdamSettings{}),
                                    .make = make_adam<optim::AdamW, optim::AdamWOptions>,
                                    .elementwise = true,
                                    .check = check_adam},
                                   {.name = "rmsprop",
                                    .doc = "root of the mean square of the gradient",
                                    .options = PartOptions::of(RmspropSettings{}),
                                    .make = make_rmsprop,
                                    .elementwise = true},
                                   {.name = "adagrad",
                                    .doc = "root of the sum of squares of the gradient",
                                    .options = PartOptions::of(AdagradSettings{}),
                                    .make = make_adagrad,
                                    .elementwise = true},
                                   {.name = "lars",
                                    .doc = "momentum, scaled to the norm of each parameter",
                                    .options = PartOptions::of(LarsSettings{}),
                                    .make = make_lars},
                                   {.name = "lamb",
                                    .doc = "Adam, scaled to the norm of each parameter",
                                    .options = PartOptions::of(LambSettings{}),
                                    .make = make_lamb,
                                    .check = check_lamb}};
  std::ranges::move(row_optimizer_parts(), std::back_inserter(parts));
  return parts;
}

}  // namespace lockstep::train
