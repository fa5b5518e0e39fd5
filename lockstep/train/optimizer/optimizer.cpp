// The construction of optimizers: parameters grouped by settings, one optimizer per group, all joined into one;
// a learning rate factor is kept in a subclass of each group's options.
#include <lockstep/base/error.h>
#include <lockstep/train/configuration/config_keys.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/optimizer/lamb.h>
#include <lockstep/train/optimizer/lars.h>
#include <lockstep/train/optimizer/parameter_groups.h>
#include <lockstep/train/optimizer/row_optimizer.h>
#include <lockstep/train/part_kinds.h>

#include <torch/torch.h>

#include <c10/util/Type.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <typeinfo>
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

template <typename Options>
bool scale_rate_of(optim::OptimizerParamGroup& group, double factor) {
  const auto* options = dynamic_cast<const Options*>(&group.options());
  if (options == nullptr) return false;
  group.set_options(std::make_unique<Scaled<Options>>(*options, factor));
  return true;
}

/// From here on, set_learning_rate gives the group `factor` times the rate.
void scale_rate(optim::OptimizerParamGroup& group, double factor, const std::string& name) {
  if (factor == 1) return;
  const bool scaled =
      scale_rate_of<optim::SGDOptions>(group, factor) || scale_rate_of<optim::AdamOptions>(group, factor) ||
      scale_rate_of<optim::AdamWOptions>(group, factor) || scale_rate_of<optim::RMSpropOptions>(group, factor) ||
      scale_rate_of<optim::AdagradOptions>(group, factor) || scale_rate_of<LarsOptions>(group, factor) ||
      scale_rate_of<LambOptions>(group, factor) || scale_rate_of<RowOptions>(group, factor);
  if (scaled) return;
  fail(ErrorKind::unsupported, "optimizer.groups",
       "lr_factor is {}, and optimizer.name {} has options of a class of its own, whose learning rate cannot be scaled "
       "for some parameters; remove lr_factor",
       factor, name);
}

/// Takes the groups of `optimizer`, with what it remembers.
void join(optim::Optimizer& whole, optim::Optimizer& optimizer) {
  for (const auto& group : optimizer.param_groups()) whole.add_param_group(group);
  for (auto& [parameter, state] : optimizer.state()) whole.state()[parameter] = std::move(state);
}

template <typename Options>
bool keep_ratio(optim::OptimizerParamGroup& group, double base) {
  const auto* options = dynamic_cast<const Options*>(&group.options());
  if (options == nullptr) return false;
  group.set_options(std::make_unique<Scaled<Options>>(*options, base > 0 ? options->get_lr() / base : 1.0));
  return true;
}

[[noreturn]] void fail_unknown(const std::string& what) {
  fail(ErrorKind::unsupported, "optimizer",
       "the program's optimizer is {}, whose state cannot be saved; take torch::optim's SGD, Adam, AdamW, RMSprop or "
       "Adagrad, without amsgrad",
       what);
}

/// By name as in optimizer.name.
std::string kind_of(const optim::Optimizer& optimizer) {
  if (dynamic_cast<const optim::SGD*>(&optimizer) != nullptr) {
    return static_cast<const optim::SGDOptions&>(optimizer.defaults()).momentum() > 0 ? "momentum" : "sgd";
  }
  if (dynamic_cast<const optim::Adam*>(&optimizer) != nullptr) {
    if (static_cast<const optim::AdamOptions&>(optimizer.defaults()).amsgrad()) fail_unknown("Adam with amsgrad");
    return "adam";
  }
  if (dynamic_cast<const optim::AdamW*>(&optimizer) != nullptr) {
    if (static_cast<const optim::AdamWOptions&>(optimizer.defaults()).amsgrad()) fail_unknown("AdamW with amsgrad");
    return "adamw";
  }
  if (dynamic_cast<const optim::RMSprop*>(&optimizer) != nullptr) return "rmsprop";
  if (dynamic_cast<const optim::Adagrad*>(&optimizer) != nullptr) return "adagrad";
  fail_unknown(c10::demangle(typeid(optimizer).name()));
}

std::unique_ptr<optim::Optimizer> make_by(const OptimizerFactory& factory, const std::vector<at::Tensor>& tensors) {
  auto optimizer = factory(tensors);
  if (!optimizer)
    fail(ErrorKind::invalid_argument, "optimizer", "the program's function gave no optimizer, but nullptr");
  if (optimizer->param_groups().empty()) fail_unknown("one without parameters");
  kind_of(*optimizer);
  const double base = optimizer->param_groups().front().options().get_lr();
  for (auto& group : optimizer->param_groups()) {
    const bool kept = keep_ratio<optim::SGDOptions>(group, base) || keep_ratio<optim::AdamOptions>(group, base) ||
                      keep_ratio<optim::AdamWOptions>(group, base) || keep_ratio<optim::RMSpropOptions>(group, base) ||
                      keep_ratio<optim::AdagradOptions>(group, base);
    if (!kept) fail_unknown("one with options of its own");
  }
  return optimizer;
}

// One object updates all parameters, so that all are saved and divided alike.
void require_same_class(const optim::Optimizer& whole, const optim::Optimizer& more, const OptimizerConfig& config) {
  if (typeid(whole) == typeid(more)) return;
  fail(ErrorKind::config, "optimizer.groups",
       "names an optimizer of another family than optimizer.name {}; those that can be combined in one run are "
       "lazy_sgd, "
       "lazy_momentum, lazy_adagrad, lazy_adam and ftrl, or sgd and momentum",
       config.name);
}

std::unique_ptr<optim::Optimizer> make_of_groups(const OptimizerConfig& config,
                                                 const std::vector<TensorGroup>& groups) {
  const auto& parts = parts_or_shipped(config.parts).optimizers;
  const auto make = [&](const std::vector<at::Tensor>& tensors, const ParameterSettings& settings) {
    OptimizerConfig own = settings.optimizer ? config_of_group(config, *settings.optimizer) : config;
    const auto& part = part_named(parts, own.name, "optimizer.name");
    own.options = options_of(own, part);
    own.lr = config.lr * settings.lr_factor;
    own.weight_decay = settings.weight_decay;
    auto optimizer = part.make(tensors, own);
    if (!optimizer) {
      fail(ErrorKind::invalid_argument, "optimizer", "the part {} gave no optimizer, but nullptr", part.name);
    }
    for (auto& group : optimizer->param_groups()) scale_rate(group, settings.lr_factor, part.name);
    return optimizer;
  };
  if (groups.empty()) return make({}, {1, config.weight_decay, std::nullopt});
  auto whole = make(groups.front().tensors, groups.front().settings);
  for (std::size_t i = 1; i < groups.size(); ++i) {
    const auto more = make(groups[i].tensors, groups[i].settings);
    require_same_class(*whole, *more, config);
    join(*whole, *more);
  }
  return whole;
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
  if (config.factory) return make_by(config.factory, tensors_of(parameters));
  std::vector<std::size_t> owners(parameters.size());
  std::iota(owners.begin(), owners.end(), std::size_t{0});
  return make_of_groups(config, groups_of(settings_of(config, parameters), tensors_of(parameters), owners));
}

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerConfig& config, const NamedParameters& parameters,
                                                 const std::vector<at::Tensor>& pieces,
                                                 const std::vector<std::size_t>& owners) {
  require_elementwise(config);
  if (config.factory) return make_by(config.factory, pieces);
  return make_of_groups(config, groups_of(settings_of(config, parameters), pieces, owners));
}

OptimizerConfig config_of_factory(OptimizerConfig config, OptimizerFactory factory) {
  const auto optimizer = make_by(factory, {torch::zeros({1}, torch::requires_grad())});
  config.name = kind_of(*optimizer);
  if (config.lr <= 0) config.lr = optimizer->param_groups().front().options().get_lr();
  config.factory = std::move(factory);
  return config;
}

void set_learning_rate(optim::Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) {
    const auto* scaled = dynamic_cast<const ScaledRate*>(&group.options());
    group.options().set_lr(scaled == nullptr ? lr : lr * scaled->lr_factor);
  }
}

}  // namespace lockstep::train
