// libtorch's optimizers, as the configuration names them, and their state as tensors with names.
#pragma once

#include <lockstep/train/config.h>
#include <lockstep/train/named_tensors.h>

#include <memory>

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace lockstep::train {

/// One parameter group with all parameters of `module` that require gradients. `momentum` is SGD with momentum:
/// v = m v + (1 - dampening) g, p -= lr v (v = g in the first step), the same as MindSpore's Momentum for dampening 0.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerConfig& config, const torch::nn::Module& module);

void set_learning_rate(torch::optim::Optimizer& optimizer, double lr);

/// What the optimizer remembers of each parameter, named "<parameter>.<field>" with the fields momentum_buffer (sgd,
/// momentum), exp_avg, exp_avg_sq and step (adam, adamw; step is an int64 scalar). Parameters that were never updated
/// have none. Tensors share memory with the optimizer, `step` excepted.
NamedTensors optimizer_state(const torch::optim::Optimizer& optimizer, const torch::nn::Module& module);

/// Puts such a state into a new optimizer of the same kind. Error(data) naming a tensor that no parameter has, or of
/// another shape.
void load_optimizer_state(torch::optim::Optimizer& optimizer, const torch::nn::Module& module,
                          const NamedTensors& state);

}  // namespace lockstep::train
