#include <lockstep/train/optimizer.h>

#include <torch/torch.h>

#include <tuple>

namespace lockstep::train {
namespace {

namespace optim = torch::optim;

std::vector<at::Tensor> trainable(const torch::nn::Module& module) {
  std::vector<at::Tensor> parameters;
  for (const auto& parameter : module.parameters()) {
    if (parameter.requires_grad()) parameters.push_back(parameter);
  }
  return parameters;
}

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

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerConfig& config, const torch::nn::Module& module) {
  const auto parameters = trainable(module);
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
