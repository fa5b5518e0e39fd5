// libtorch's optimizers, made from the configuration, and their state as named tensors. For SGD, Adam and AdamW. Not
// thread-safe beside other uses of the optimizer.
#pragma once

#include <lockstep/train/config.h>
#include <lockstep/train/named_tensors.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace lockstep::train {

using NamedParameters = std::vector<std::pair<std::string, at::Tensor>>;

/// The parameters of a module that require gradients, each once, under its first name.
NamedParameters trainable_parameters(const torch::nn::Module& module);

/// The same without their names.
std::vector<at::Tensor> tensors_of(const NamedParameters& parameters);
/// Tensors without names as parameters, named by their indices ("0", "1", ...).
NamedParameters named_by_number(const std::vector<at::Tensor>& pieces);

/// One parameter group with all of `parameters`. `momentum` is SGD with momentum: v = m v + (1 - dampening) g, p -= lr
/// v (v = g in the first step), the same as MindSpore's Momentum for dampening 0.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerConfig& config,
                                                        const std::vector<at::Tensor>& parameters);

void set_learning_rate(torch::optim::Optimizer& optimizer, double lr);

/// The names of the state tensors that the optimizer keeps for each parameter: momentum_buffer (sgd, momentum); exp_avg
/// and exp_avg_sq (adam, adamw). Adam and AdamW also keep a step counter, which is not a tensor.
std::vector<std::string> remembered_tensors(const torch::optim::Optimizer& optimizer);
inline constexpr const char* kRememberedStep = "step";

/// The whole state as tensors named "<parameter>.<field>"; `step` is an int64 scalar. Parameters that were never
/// updated have none. Tensors share memory with the optimizer, except `step`.
NamedTensors optimizer_state(const torch::optim::Optimizer& optimizer, const NamedParameters& parameters);

/// Loads a state from optimizer_state() into a new optimizer of the same kind. Error(data) naming a tensor that belongs
/// to no parameter, or has another shape.
void load_optimizer_state(torch::optim::Optimizer& optimizer, const NamedParameters& parameters,
                          const NamedTensors& state);

}  // namespace lockstep::train
