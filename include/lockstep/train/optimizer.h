// Optimizers, made from the configuration, and their state as named tensors. For libtorch's SGD, Adam, AdamW, RMSprop
// and Adagrad, and classes that carry their state (OptimizerMemory): LARS, LAMB, Muon, the optimizers of rows, and
// those of parts (parts.h). Not thread-safe beside other uses of the optimizer.
#pragma once

#include <lockstep/train/config.h>
#include <lockstep/train/named_tensors.h>

#include <cstddef>
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

/// `parameters` are all that are trained. Those with the same settings by optimizer.groups and optimizer.no_decay are
/// one parameter group. Error(config) for a pattern that matches none of the names.
///   sgd, momentum:  torch::optim::SGD: v = m v + (1 - dampening) g, p -= lr v (v = g in the first step), the same as
///                   MindSpore's Momentum for dampening 0
///   adam, adamw, rmsprop, adagrad: torch::optim's classes
///   lazy_sgd, lazy_momentum, lazy_adagrad, lazy_adam, ftrl: the rows of sparse gradients only (rows/row_rule.h in the
///   source has the formulas); an entry of optimizer.groups may name another of them
///   with a factory: what that makes; optimizer.groups and no_decay do not count
///   lars, lamb, muon: the papers' (train/optimizer/lars.h, lamb.h and muon.h in the source have the formulas); they
///                   need whole parameters, which may be global tensors
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerConfig& config,
                                                        const NamedParameters& parameters);

/// The same for pieces of the parameters, which are updated in their place (ParameterShards): `owners` has the index of
/// the parameter that each piece is of. Error(config) for parts that are
/// not elementwise, such as lars.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerConfig& config,
                                                        const NamedParameters& parameters,
                                                        const std::vector<at::Tensor>& pieces,
                                                        const std::vector<std::size_t>& owners);

/// The configuration of a program's own optimizer: optimizer.name by its class, and optimizer.lr, if that is not given,
/// by its first parameter group. Error(unsupported) for one whose state cannot be saved.
OptimizerConfig config_of_factory(OptimizerConfig config, OptimizerFactory factory);

/// Sets the learning rate of each group: `lr` times its lr_factor, which is 1 for an optimizer that make_optimizer did
/// not make.
void set_learning_rate(torch::optim::Optimizer& optimizer, double lr);

/// Options of a parameter group that are this, too, can have a learning rate of their own: torch::optim's need not be.
struct ScaledRate {
  double lr_factor = 1;  ///< of the scheduled rate
};

inline constexpr const char* kRememberedStep = "step";

/// What a class of optimizer is, beside a torch::optim::Optimizer, that is none of torch::optim's SGD, Adam, AdamW,
/// RMSprop and Adagrad and derived of none of them: it carries the names, saving and loading of its state.
/// make_optimizer and the functions below refuse any other, as its state would be missing in checkpoints.
class OptimizerMemory {
 public:
  virtual ~OptimizerMemory() = default;
  /// The names of the tensors that it may keep for a parameter, all of the parameter's shape.
  virtual std::vector<std::string> remembered_tensors() const = 0;
  /// What it keeps for `parameter` under those names, and its number of updates under kRememberedStep (an int64
  /// scalar), where it counts them. Shares its memory. Empty before the first update.
  virtual NamedTensors memory_of(const at::Tensor& parameter) const = 0;
  /// The reverse, before the first update: takes out of `saved`, where shapes are right, what it has a place for.
  virtual void load_memory_of(const at::Tensor& parameter, NamedTensors& saved) = 0;
};

/// The names of the state tensors that the optimizer may keep for each parameter, e.g. momentum_buffer (sgd, momentum,
/// lars), or exp_avg and exp_avg_sq (adam, adamw, lamb). Some also keep a step counter, which is not a tensor.
/// Error(unsupported) for a class whose state is not known.
std::vector<std::string> remembered_tensors(const torch::optim::Optimizer& optimizer);

/// The whole state as tensors named "<parameter>.<field>"; `step` is an int64 scalar. Parameters that were never
/// updated have none. Tensors share memory with the optimizer, except `step`. Error(unsupported) for a class whose
/// state is not known.
NamedTensors optimizer_state(const torch::optim::Optimizer& optimizer, const NamedParameters& parameters);

/// Loads a state from optimizer_state() into a new optimizer of the same kind. Error(data) naming a tensor that belongs
/// to no parameter, or has another shape.
void load_optimizer_state(torch::optim::Optimizer& optimizer, const NamedParameters& parameters,
                          const NamedTensors& state);

}  // namespace lockstep::train
