#include <lockstep/train/config_keys.h>
#include <lockstep/train/optimizer.h>

#include <torch/torch.h>

#include <tuple>
#include <unordered_set>

namespace lockstep::train {
namespace {

namespace optim = torch::optim;

optim::SGDOptions sgd_options(const OptimizerConfig& config) {
  return optim::SGDOptions(config.lr)
      .momentum(momentum_of(config))
      .dampening(config.dampening)
      .weight_decay(config.weight_decay)
      .nesterov(config.nesterov);
}

template <typename Options>
Options adam_options(const OptimizerConfig& config) {
  return Options(config.lr)
      .betas(std::make_tuple(config.betas.at(0), config.betas.at(1)))
      .eps(config.eps)
      .weight_decay(config.weight_decay);
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

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerConfig& config,
                                                 const std::vector<at::Tensor>& parameters) {
  if (config.name == "adam") return std::make_unique<optim::Adam>(parameters, adam_options<optim::AdamOptions>(config));
  if (config.name == "adamw") {
    return std::make_unique<optim::AdamW>(parameters, adam_options<optim::AdamWOptions>(config));
  }
  return std::make_unique<optim::SGD>(parameters, sgd_options(config));
}

void set_learning_rate(optim::Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
}

}  // namespace lockstep::train
