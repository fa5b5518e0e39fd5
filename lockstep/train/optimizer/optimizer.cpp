// The construction of optimizers: parameters grouped by settings, one optimizer per group, all joined into one;
// a learning rate factor is kept in each group's options (ScaledRate).
#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/optimizer/parameter_groups.h>
#include <lockstep/train/optimizer/torch_optimizer.h>

#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <typeinfo>
#include <unordered_set>

namespace lockstep::train {
namespace {

namespace optim = torch::optim;

/// A group of tensors with the same settings.
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

/// After this call, set_learning_rate gives the group `factor` times the rate.
void scale_rate(optim::OptimizerParamGroup& group, double factor, const std::string& name) {
  if (factor == 1 || scale_rate_of(group, factor)) return;
  fail(ErrorKind::unsupported, "optimizer.groups",
       "lr_factor is {}, and optimizer.name {} has options of a class of its own that is no "
       "lockstep::train::ScaledRate, so their learning rate cannot be scaled for some parameters; remove lr_factor",
       factor, name);
}

/// Moves the groups and the state of `optimizer` to this optimizer.
void join(optim::Optimizer& whole, optim::Optimizer& optimizer) {
  for (const auto& group : optimizer.param_groups()) whole.add_param_group(group);
  for (auto& [parameter, state] : optimizer.state()) whole.state()[parameter] = std::move(state);
}

/// Keys of the section `optimizer` that have no effect, because the program makes the optimizer.
void require_no_other(const OptimizerConfig& given, const OptimizerConfig& own) {
  const OptimizerConfig unset;
  const auto refuse = [](std::string_view key, const std::string& value) {
    fail(ErrorKind::config, key, "is {} and has no effect: the program makes its optimizer; remove it, or set it there",
         value);
  };
  const auto options = [](PartOptions of) { return print_fields([&](ConfigFields& fields) { of.visit(fields); }); };
  if (given.name != unset.name && given.name != own.name) refuse("optimizer.name", given.name);
  if (given.weight_decay != unset.weight_decay && given.weight_decay != own.weight_decay) {
    refuse("optimizer.weight_decay", fmt::format("{}", given.weight_decay));
  }
  if (given.options.part() == own.name && options(given.options) != options(own.options)) {
    refuse(fmt::format("an option of optimizer.name {}", own.name), "set");
  }
  if (!given.no_decay.empty()) refuse("optimizer.no_decay", fmt::format("[{}]", fmt::join(given.no_decay, ", ")));
  if (given.groups.kind != ConfigNode::Kind::null) refuse("optimizer.groups", print_yaml(given.groups));
}

void require_given(const optim::Optimizer& optimizer, const std::vector<at::Tensor>& tensors) {
  std::unordered_set<const c10::TensorImpl*> given;
  for (const auto& tensor : tensors) given.insert(tensor.unsafeGetTensorImpl());
  std::size_t updated = 0;
  for (const auto& group : optimizer.param_groups()) {
    updated += group.params().size();
    for (const auto& parameter : group.params()) {
      if (given.contains(parameter.unsafeGetTensorImpl())) continue;
      fail(ErrorKind::invalid_argument, "optimizer",
           "the program's function made an optimizer of a tensor that is not among the parameters it got; use those");
    }
  }
  if (updated >= given.size()) return;
  log_warning("the program's optimizer has {} of the model's {} parameters: the others are not trained", updated,
              given.size());
}

std::unique_ptr<optim::Optimizer> make_by(const OptimizerFactory& factory, const std::vector<at::Tensor>& tensors) {
  auto optimizer = factory(tensors);
  if (!optimizer)
    fail(ErrorKind::invalid_argument, "optimizer", "the program's function returned nullptr instead of an optimizer");
  if (optimizer->param_groups().empty()) {
    fail(ErrorKind::invalid_argument, "optimizer", "the program's function returned an optimizer without parameters");
  }
  require_given(*optimizer, tensors);
  torch_optimizer_of(*optimizer).settings(*optimizer);  // throws where the state cannot be saved
  const double base = optimizer->param_groups().front().options().get_lr();
  for (auto& group : optimizer->param_groups()) {
    if (scale_rate_of(group, base > 0 ? group.options().get_lr() / base : 1.0)) continue;
    fail(ErrorKind::unsupported, "optimizer",
         "the program's optimizer has options of a class of its own, so its learning rate cannot be scheduled; take "
         "those of torch::optim");
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

std::unique_ptr<optim::Optimizer> make_of_groups(const ResolvedRun& run, const std::vector<TensorGroup>& groups) {
  const auto& config = run.optimizer;
  const auto make = [&](const std::vector<at::Tensor>& tensors, const ParameterSettings& settings) {
    OptimizerConfig own = settings.optimizer ? config_of_group(run, *settings.optimizer) : config;
    const auto& part = part_named(run.parts->optimizers, own.name, "optimizer.name");
    own.options = options_of(own, part);
    own.lr = config.lr * settings.lr_factor;
    own.weight_decay = settings.weight_decay;
    auto optimizer = part.make(tensors, own);
    if (!optimizer) {
      fail(ErrorKind::invalid_argument, "optimizer", "the part {} returned nullptr instead of an optimizer", part.name);
    }
    remembered_tensors(*optimizer);  // throws for a class whose state is unknown, before there is any state
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

std::unique_ptr<optim::Optimizer> make_optimizer(const ResolvedRun& run, const NamedParameters& parameters) {
  if (run.optimizer_factory) return make_by(run.optimizer_factory, tensors_of(parameters));
  std::vector<std::size_t> owners(parameters.size());
  std::iota(owners.begin(), owners.end(), std::size_t{0});
  return make_of_groups(run, groups_of(settings_of(run, parameters), tensors_of(parameters), owners));
}

std::unique_ptr<optim::Optimizer> make_optimizer(const ResolvedRun& run, const NamedParameters& parameters,
                                                 const std::vector<at::Tensor>& pieces,
                                                 const std::vector<std::size_t>& owners) {
  require_elementwise(run);
  if (run.optimizer_factory) return make_by(run.optimizer_factory, pieces);
  return make_of_groups(run, groups_of(settings_of(run, parameters), pieces, owners));
}

void set_own_optimizer(ResolvedRun& run, OptimizerFactory factory) {
  const auto optimizer = make_by(factory, {torch::zeros({1}, torch::requires_grad())});
  const auto own = torch_optimizer_of(*optimizer).settings(*optimizer);
  require_no_other(run.optimizer, own);
  run.optimizer.name = own.name;
  run.optimizer.options = own.options;
  run.optimizer.weight_decay = own.weight_decay;
  if (run.optimizer.lr == 0) run.optimizer.lr = own.lr;
  run.optimizer_factory = std::move(factory);
}

void set_learning_rate(optim::Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) {
    const auto* scaled = dynamic_cast<const ScaledRate*>(&group.options());
    group.options().set_lr(scaled == nullptr ? lr : lr * scaled->lr_factor);
  }
}

}  // namespace lockstep::train
