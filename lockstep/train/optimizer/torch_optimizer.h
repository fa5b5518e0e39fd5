// Adapters for the optimizer classes of torch::optim: their state as named tensors, and the rates of groups.
#pragma once

#include <lockstep/train/optimizer.h>

#include <torch/optim/optimizer.h>

#include <string>
#include <vector>

namespace lockstep::train {

/// One class, and what is derived from it.
struct TorchOptimizer {
  bool (*is)(const torch::optim::Optimizer& optimizer);
  /// Name, lr, weight_decay and options as in the section `optimizer`, of the first group. Error(unsupported) for
  /// options with which the state cannot be saved.
  OptimizerConfig (*settings)(const torch::optim::Optimizer& optimizer);
  /// Replaces the options by ones with a ScaledRate; false for options of another class.
  bool (*scale_rate)(torch::optim::OptimizerParamGroup& group, double factor);

  // As in OptimizerMemory.
  std::vector<std::string> remembered;
  NamedTensors (*memory_of)(const torch::optim::Optimizer& optimizer, const at::Tensor& parameter);
  void (*load_memory_of)(torch::optim::Optimizer& optimizer, const at::Tensor& parameter, NamedTensors& saved);
};

/// The class of `optimizer`. Error(unsupported) for another class.
const TorchOptimizer& torch_optimizer_of(const torch::optim::Optimizer& optimizer);

/// Gives the group a ScaledRate of that factor; false if its options have an unknown class.
bool scale_rate_of(torch::optim::OptimizerParamGroup& group, double factor);

}  // namespace lockstep::train
