// Optimizers, made from the configuration, and their state as named tensors. For libtorch's SGD, Adam, AdamW, RMSprop
// and Adagrad, and classes that manage their state (OptimizerMemory): LARS, LAMB, Muon, the optimizers of rows, and
// those of parts (parts.h). Not thread-safe beside other uses of the optimizer.
#pragma once

#include <lockstep/train/named_tensors.h>
#include <lockstep/train/resolved_run.h>

#include <cstddef>
#include <filesystem>
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
///   with a factory: its result; optimizer.groups and no_decay have no effect
///   lars, lamb, muon: the papers' (train/optimizer/layerwise.cpp and muon.cpp in the source have the formulas); they
///                   need whole parameters, which may be global tensors
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const ResolvedRun& run, const NamedParameters& parameters);

/// The same for pieces of the parameters, which are updated in their place (ParameterShards): `owners` has the index of
/// the parameter of each piece. Error(config) for optimizers that are not elementwise, such as lars.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const ResolvedRun& run, const NamedParameters& parameters,
                                                        const std::vector<at::Tensor>& pieces,
                                                        const std::vector<std::size_t>& owners);

/// Gives the run an optimizer that its program makes: optimizer.name is that of its class, and weight_decay, the
/// options and, if not given, lr are those of its first parameter group. Error(unsupported) for an optimizer whose
/// state cannot be saved, Error(config) for other values of the section, which would have no effect.
void set_own_optimizer(ResolvedRun& run, OptimizerFactory factory);

/// Sets the learning rate of each group: `lr` times its lr_factor, which is 1 for an optimizer that make_optimizer did
/// not make.
void set_learning_rate(torch::optim::Optimizer& optimizer, double lr);

/// A further base class of the options of a parameter group, for groups with a separate learning rate. Options of
/// torch::optim need not have it.
struct ScaledRate {
  double lr_factor = 1;  ///< of the scheduled rate
};

inline constexpr const char* kRememberedStep = "step";

/// A further base class of optimizers that are not torch::optim's SGD, Adam, AdamW, RMSprop or Adagrad, nor derived
/// from them: it defines the names, saving and loading of the optimizer's state. make_optimizer and the functions below
/// reject any other class, because its state would be missing in checkpoints.
class OptimizerMemory {
 public:
  virtual ~OptimizerMemory() = default;
  /// The names of the state tensors of a parameter, all of the parameter's shape.
  virtual std::vector<std::string> remembered_tensors() const = 0;
  /// The state of `parameter` under those names, and its number of updates under kRememberedStep (an int64 scalar), if
  /// the optimizer counts them. Shares memory with the state. Empty before the first update.
  virtual NamedTensors memory_of(const at::Tensor& parameter) const = 0;
  /// The reverse, before the first update: moves the tensors that belong to the state and have the right shape out of
  /// `saved`.
  virtual void load_memory_of(const at::Tensor& parameter, NamedTensors& saved) = 0;
};

/// The names of the state tensors that the optimizer may keep for each parameter, e.g. momentum_buffer (sgd, momentum,
/// lars), or exp_avg and exp_avg_sq (adam, adamw, lamb). Some also keep a step counter, which is not a tensor.
/// Error(unsupported) for an unsupported class.
std::vector<std::string> remembered_tensors(const torch::optim::Optimizer& optimizer);

/// The whole state as tensors named "<parameter>.<field>"; `step` is an int64 scalar. Parameters that were never
/// updated have no state. Tensors share memory with the optimizer, except `step`. Error(unsupported) for an unsupported
/// class.
NamedTensors optimizer_state(const torch::optim::Optimizer& optimizer, const NamedParameters& parameters);

/// Loads a state from optimizer_state() into a new optimizer of the same kind. Error(data) naming a tensor that belongs
/// to no parameter, or has another shape.
void load_optimizer_state(torch::optim::Optimizer& optimizer, const NamedParameters& parameters,
                          const NamedTensors& state);

/// The same from a sharded checkpoint (state/checkpoint.h), in which the state was saved as tensors
/// "<prefix><parameter>.<field>". Parameters without saved state get no state. Errors: those of load_sharded, and data
/// when the saved state belongs to a parameter that is not among `parameters`, or to another kind of optimizer.
void load_sharded_optimizer(const std::filesystem::path& folder, const std::string& prefix,
                            torch::optim::Optimizer& optimizer, const NamedParameters& parameters);

}  // namespace lockstep::train
