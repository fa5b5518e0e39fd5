#include <lockstep/base/error.h>
#include <lockstep/train/config_keys.h>
#include <lockstep/train/lamb.h>
#include <lockstep/train/lars.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/parameter_groups.h>

#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_set>

namespace lockstep::train {
namespace {

namespace optim = torch::optim;

/// What the options of a group have besides those of their optimizer.
struct ScaledRate {
  double lr_factor = 1;
};

/// Options whose class libtorch's optimizers know, with a ScaledRate that all copies keep.
template <typename Options>
struct Scaled final : Options, ScaledRate {
  Scaled(const Options& options, double factor) : Options(options), ScaledRate{factor} {}
  std::unique_ptr<optim::OptimizerOptions> clone() const override { return std::make_unique<Scaled>(*this); }
};

/// The tensors with the same settings.
struct TensorGroup {
  ParameterSettings settings;
  std::vector<at::Tensor> tensors;
};

std::vector<TensorGroup> groups_of(const std::vector<ParameterSettings>& settings,
                                   const std::vector<at::Tensor>& pieces, const std::vector<std::size_t>& owners) {
  std::vector<TensorGroup> groups;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto& own = settings.at(owners.at(i));
    auto group = std::ranges::find(groups, own, &TensorGroup::settings);
    if (group == groups.end()) group = groups.insert(groups.end(), {own, {}});
    group->tensors.push_back(pieces[i]);
  }
  return groups;
}

optim::SGDOptions sgd_options(const OptimizerConfig& config) {
  return optim::SGDOptions(config.lr)
      .momentum(momentum_of(config))
      .dampening(config.dampening)
      .nesterov(config.nesterov);
}

template <typename Options>
Options adam_options(const OptimizerConfig& config) {
  return Options(config.lr).betas(std::make_tuple(config.betas.at(0), config.betas.at(1))).eps(config.eps);
}

optim::RMSpropOptions rmsprop_options(const OptimizerConfig& config) {
  return optim::RMSpropOptions(config.lr)
      .alpha(config.alpha)
      .eps(config.eps)
      .momentum(momentum_of(config))
      .centered(config.centered);
}

optim::AdagradOptions adagrad_options(const OptimizerConfig& config) {
  return optim::AdagradOptions(config.lr)
      .lr_decay(config.lr_decay)
      .initial_accumulator_value(config.initial_accumulator)
      .eps(config.eps);
}

LarsOptions lars_options(const OptimizerConfig& config) {
  LarsOptions options;
  options.lr = config.lr;
  options.momentum = momentum_of(config);
  options.trust_coefficient = config.trust_coefficient;
  options.eps = config.eps;
  options.adapt_1d = config.adapt_1d;
  return options;
}

LambOptions lamb_options(const OptimizerConfig& config) {
  LambOptions options;
  options.lr = config.lr;
  options.beta1 = config.betas.at(0);
  options.beta2 = config.betas.at(1);
  options.eps = config.eps;
  options.max_weight_norm = config.max_weight_norm;
  options.adapt_1d = config.adapt_1d;
  return options;
}

template <typename Options>
void set_weight_decay(Options& options, double weight_decay) {
  if constexpr (std::is_same_v<Options, LarsOptions> || std::is_same_v<Options, LambOptions>) {
    options.weight_decay = weight_decay;
  } else {
    options.weight_decay(weight_decay);
  }
}

/// `options` are those of all groups but for what groups have of their own.
template <typename Optimizer, typename Options>
std::unique_ptr<optim::Optimizer> make_of(const std::vector<TensorGroup>& groups, const Options& options) {
  std::vector<optim::OptimizerParamGroup> of_optimizer;
  for (const auto& [settings, tensors] : groups) {
    auto own = options;
    set_weight_decay(own, settings.weight_decay);
    own.set_lr(options.get_lr() * settings.lr_factor);
    of_optimizer.emplace_back(tensors, std::make_unique<Scaled<Options>>(own, settings.lr_factor));
  }
  return std::make_unique<Optimizer>(std::move(of_optimizer), options);
}

std::unique_ptr<optim::Optimizer> make_of_groups(const OptimizerConfig& config,
                                                 const std::vector<TensorGroup>& groups) {
  const auto& name = config.name;
  if (name == "adam") return make_of<optim::Adam>(groups, adam_options<optim::AdamOptions>(config));
  if (name == "adamw") return make_of<optim::AdamW>(groups, adam_options<optim::AdamWOptions>(config));
  if (name == "rmsprop") return make_of<optim::RMSprop>(groups, rmsprop_options(config));
  if (name == "adagrad") return make_of<optim::Adagrad>(groups, adagrad_options(config));
  if (name == "lars") return make_of<Lars>(groups, lars_options(config));
  if (name == "lamb") return make_of<Lamb>(groups, lamb_options(config));
  return make_of<optim::SGD>(groups, sgd_options(config));
}

}  // namespace

NamedParameters trainable_parameters(const torch::nn::Module& module) {
  NamedParameters parameters;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& item : module.named_parameters()) {
    if (!item.value().requires_grad() || !seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    parameters.emplace_back(item.key(), item.value());
  }
  return parameters;
}

std::vector<at::Tensor> tensors_of(const NamedParameters& parameters) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, parameter] : parameters) tensors.push_back(parameter);
  return tensors;
}

NamedParameters named_by_number(const std::vector<at::Tensor>& pieces) {
  NamedParameters named;
  for (const auto& piece : pieces) named.emplace_back(std::to_string(named.size()), piece);
  return named;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerConfig& config, const NamedParameters& parameters) {
  std::vector<std::size_t> owners(parameters.size());
  std::iota(owners.begin(), owners.end(), std::size_t{0});
  return make_of_groups(config, groups_of(settings_of(config, parameters), tensors_of(parameters), owners));
}

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerConfig& config, const NamedParameters& parameters,
                                                 const std::vector<at::Tensor>& pieces,
                                                 const std::vector<std::size_t>& owners) {
  require_elementwise(config);
  return make_of_groups(config, groups_of(settings_of(config, parameters), pieces, owners));
}

void set_learning_rate(optim::Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) {
    const auto* scaled = dynamic_cast<const ScaledRate*>(&group.options());
    group.options().set_lr(scaled == nullptr ? lr : lr * scaled->lr_factor);
  }
}

}  // namespace lockstep::train
