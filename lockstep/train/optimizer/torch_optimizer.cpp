// The optimizers of torch::optim: SGD, Adam, AdamW, RMSprop and Adagrad, with their keys, rates of groups and states.
#include <lockstep/base/error.h>
#include <lockstep/train/optimizer/own_optimizer.h>
#include <lockstep/train/optimizer/torch_optimizer.h>
#include <lockstep/train/part_settings.h>
#include <lockstep/train/parts.h>

#include <c10/util/Type.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

namespace lockstep::train {
namespace {

namespace optim = torch::optim;

using Tensors = std::vector<at::Tensor>;
using Optimizer = std::unique_ptr<optim::Optimizer>;

// --- the state of a parameter ---------------------------------------------------------------------------------------

NamedTensors fields_of(const optim::SGDParamState* state) { return fields_of_momentum(state); }
NamedTensors fields_of(const optim::AdamParamState* state) { return fields_of_moments(state); }
NamedTensors fields_of(const optim::AdamWParamState* state) { return fields_of_moments(state); }

NamedTensors fields_of(const optim::RMSpropParamState* state) {
  NamedTensors fields;
  if (state == nullptr) return fields;
  add_field(fields, "square_avg", state->square_avg());
  add_field(fields, "momentum_buffer", state->momentum_buffer());
  add_field(fields, "grad_avg", state->grad_avg());
  add_step(fields, state->step());
  return fields;
}

/// libtorch's Adagrad has a state already before the first update, made from the configuration.
NamedTensors fields_of(const optim::AdagradParamState* state) {
  NamedTensors fields;
  if (state == nullptr || state->step() == 0) return fields;
  add_field(fields, "sum", state->sum());
  add_step(fields, state->step());
  return fields;
}

template <typename State>
std::unique_ptr<State> take(NamedTensors& saved, const at::Tensor& parameter, const optim::OptimizerOptions& defaults);

template <>
std::unique_ptr<optim::SGDParamState> take(NamedTensors& saved, const at::Tensor& parameter,
                                           const optim::OptimizerOptions&) {
  return take_momentum(saved, parameter);
}

template <>
std::unique_ptr<optim::AdamParamState> take(NamedTensors& saved, const at::Tensor& parameter,
                                            const optim::OptimizerOptions&) {
  return take_moments<optim::AdamParamState>(saved, parameter);
}

template <>
std::unique_ptr<optim::AdamWParamState> take(NamedTensors& saved, const at::Tensor& parameter,
                                             const optim::OptimizerOptions&) {
  return take_moments<optim::AdamWParamState>(saved, parameter);
}

/// With momentum, or centered, tensors are required that the previous run may not have had.
template <>
std::unique_ptr<optim::RMSpropParamState> take(NamedTensors& saved, const at::Tensor& parameter,
                                               const optim::OptimizerOptions& defaults) {
  const auto& options = static_cast<const optim::RMSpropOptions&>(defaults);
  const auto square = take_field(saved, "square_avg");
  const auto momentum = take_field(saved, "momentum_buffer");
  const auto average = take_field(saved, "grad_avg");
  const auto step = take_field(saved, kRememberedStep);
  if (!square.defined() || !step.defined()) return nullptr;
  const auto taken_or_0 = [&parameter](const at::Tensor& tensor) {
    return tensor.defined() ? like_parameter(tensor, parameter) : at::zeros_like(parameter, at::MemoryFormat::Preserve);
  };
  auto state = std::make_unique<optim::RMSpropParamState>();
  state->square_avg(like_parameter(square, parameter));
  if (options.momentum() > 0) state->momentum_buffer(taken_or_0(momentum));
  if (options.centered()) state->grad_avg(taken_or_0(average));
  state->step(step.item<std::int64_t>());
  return state;
}

template <>
std::unique_ptr<optim::AdagradParamState> take(NamedTensors& saved, const at::Tensor& parameter,
                                               const optim::OptimizerOptions&) {
  const auto sum = take_field(saved, "sum");
  const auto step = take_field(saved, kRememberedStep);
  if (!sum.defined() || !step.defined()) return nullptr;
  auto state = std::make_unique<optim::AdagradParamState>();
  state->sum(like_parameter(sum, parameter));
  state->step(step.item<std::int64_t>());
  return state;
}

// --- the classes ----------------------------------------------------------------------------------------------------

/// Options of a class that libtorch's optimizers accept, with a ScaledRate that all copies keep.
template <typename Options>
struct Scaled final : Options, ScaledRate {
  Scaled(const Options& options, double factor) : Options(options), ScaledRate{factor} {}
  std::unique_ptr<optim::OptimizerOptions> clone() const override { return std::make_unique<Scaled>(*this); }
};

template <typename Options>
bool scale_rate(optim::OptimizerParamGroup& group, double factor) {
  const auto* options = dynamic_cast<const Options*>(&group.options());
  if (options == nullptr) return false;
  group.set_options(std::make_unique<Scaled<Options>>(*options, factor));
  return true;
}

template <typename Class, typename Options, typename State>
TorchOptimizer torch_class(OptimizerConfig (*settings)(const optim::Optimizer&), std::vector<std::string> remembered) {
  return {.is = [](const optim::Optimizer& optimizer) { return dynamic_cast<const Class*>(&optimizer) != nullptr; },
          .settings = settings,
          .scale_rate = scale_rate<Options>,
          .remembered = std::move(remembered),
          .memory_of = [](const optim::Optimizer& optimizer,
                          const at::Tensor& parameter) { return fields_of(find_state<State>(optimizer, parameter)); },
          .load_memory_of =
              [](optim::Optimizer& optimizer, const at::Tensor& parameter, NamedTensors& saved) {
                put_state(optimizer, parameter, take<State>(saved, parameter, optimizer.defaults()));
              }};
}

template <typename Options>
const Options& first_options(const optim::Optimizer& optimizer) {
  return static_cast<const Options&>(optimizer.param_groups().front().options());
}

template <typename Options, typename Settings>
OptimizerConfig config_of(const Options& options, std::string name, Settings settings) {
  OptimizerConfig config;
  choose(config, std::move(name), std::move(settings));
  config.lr = options.lr();
  config.weight_decay = options.weight_decay();
  return config;
}

OptimizerConfig settings_of_sgd(const optim::Optimizer& optimizer) {
  const auto& options = first_options<optim::SGDOptions>(optimizer);
  return config_of(options, options.momentum() > 0 ? "momentum" : "sgd",
                   SgdSettings{options.momentum(), options.nesterov(), options.dampening()});
}

/// Of Adam and AdamW.
template <typename Options>
OptimizerConfig settings_of_adam(const optim::Optimizer& optimizer) {
  const auto& options = first_options<Options>(optimizer);
  if (options.amsgrad()) fail_amsgrad();
  const auto [first, second] = options.betas();
  return config_of(options, std::is_same_v<Options, optim::AdamOptions> ? "adam" : "adamw",
                   AdamSettings{{first, second}, options.eps()});
}

OptimizerConfig settings_of_rmsprop(const optim::Optimizer& optimizer) {
  const auto& options = first_options<optim::RMSpropOptions>(optimizer);
  return config_of(options, "rmsprop",
                   RmspropSettings{options.alpha(), options.eps(), options.momentum(), options.centered()});
}

OptimizerConfig settings_of_adagrad(const optim::Optimizer& optimizer) {
  const auto& options = first_options<optim::AdagradOptions>(optimizer);
  return config_of(options, "adagrad",
                   AdagradSettings{options.lr_decay(), options.initial_accumulator_value(), options.eps()});
}

const std::vector<TorchOptimizer>& torch_classes() {
  static const std::vector<TorchOptimizer> classes{
      torch_class<optim::SGD, optim::SGDOptions, optim::SGDParamState>(settings_of_sgd, {"momentum_buffer"}),
      torch_class<optim::Adam, optim::AdamOptions, optim::AdamParamState>(settings_of_adam<optim::AdamOptions>,
                                                                          {"exp_avg", "exp_avg_sq"}),
      torch_class<optim::AdamW, optim::AdamWOptions, optim::AdamWParamState>(settings_of_adam<optim::AdamWOptions>,
                                                                             {"exp_avg", "exp_avg_sq"}),
      torch_class<optim::RMSprop, optim::RMSpropOptions, optim::RMSpropParamState>(
          settings_of_rmsprop, {"square_avg", "momentum_buffer", "grad_avg"}),
      torch_class<optim::Adagrad, optim::AdagradOptions, optim::AdagradParamState>(settings_of_adagrad, {"sum"})};
  return classes;
}

// --- the parts ------------------------------------------------------------------------------------------------------

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

void check_adam(const OptimizerConfig& config) { require_two_betas(config.options.as<AdamSettings>().betas); }

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

}  // namespace

const TorchOptimizer& torch_optimizer_of(const optim::Optimizer& optimizer) {
  const auto found = std::ranges::find_if(torch_classes(), [&](const auto& each) { return each.is(optimizer); });
  if (found != torch_classes().end()) return *found;
  fail(
      ErrorKind::unsupported, "optimizer",
      "the optimizer is a {}, and how its state is saved is not known; take torch::optim's SGD, Adam, AdamW, RMSprop "
      "or Adagrad, or a class derived from one, or let a part make a class that is a lockstep::train::OptimizerMemory, "
      "too",
      c10::demangle(typeid(optimizer).name()));
}

bool scale_rate_of(optim::OptimizerParamGroup& group, double factor) {
  if (auto* own = dynamic_cast<ScaledRate*>(&group.options())) {
    own->lr_factor = factor;
    return true;
  }
  return std::ranges::any_of(torch_classes(), [&](const auto& each) { return each.scale_rate(group, factor); });
}

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

void add_torch_optimizer(Parts& parts) {
  parts.optimizers.push_back({.name = "sgd",
                              .doc = "gradient descent",
                              .options = PartOptions::of(SgdSettings{}),
                              .make = make_sgd,
                              .elementwise = true,
                              .check = check_sgd});
  parts.optimizers.push_back({.name = "momentum",
                              .doc = "gradient descent with momentum",
                              .options = PartOptions::of(SgdSettings{.momentum = 0.9}),
                              .make = make_sgd,
                              .elementwise = true,
                              .check = check_sgd});
  parts.optimizers.push_back({.name = "adam",
                              .doc = "moments of the gradient",
                              .options = PartOptions::of(AdamSettings{}),
                              .make = make_adam<optim::Adam, optim::AdamOptions>,
                              .elementwise = true,
                              .check = check_adam});
  parts.optimizers.push_back({.name = "adamw",
                              .doc = "Adam with weight decay apart from the gradient",
                              .options = PartOptions::of(AdamSettings{}),
                              .make = make_adam<optim::AdamW, optim::AdamWOptions>,
                              .elementwise = true,
                              .check = check_adam});
  parts.optimizers.push_back({.name = "rmsprop",
                              .doc = "root of the mean square of the gradient",
                              .options = PartOptions::of(RmspropSettings{}),
                              .make = make_rmsprop,
                              .elementwise = true});
  parts.optimizers.push_back({.name = "adagrad",
                              .doc = "root of the sum of squares of the gradient",
                              .options = PartOptions::of(AdagradSettings{}),
                              .make = make_adagrad,
                              .elementwise = true});
}

}  // namespace lockstep::train
