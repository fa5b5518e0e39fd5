// Parameters by name patterns: those that are not trained (model.freeze), and groups with settings of their own
// (optimizer.groups).
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/resolved_run.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

/// Switches requires_grad off for the parameters that match one of the patterns. Before the module is made parallel.
/// Buffers are not parameters: the statistics of a frozen batch norm are still updated in training mode. Error(config)
/// for a pattern that matches no parameter, and when no trainable parameter is left.
void freeze_parameters(const torch::nn::Module& module, const std::vector<std::string>& patterns);

/// An optimizer's state (optimizer.h) without the state of frozen parameters: a run may freeze more parameters than the
/// run that it continues.
NamedTensors without_frozen(NamedTensors optimizer_state, const torch::nn::Module& module);

/// One entry of optimizer.groups.
struct GroupRule {
  std::vector<std::string> match;      ///< patterns of names
  double lr_factor = 1;                ///< of the scheduled learning rate
  std::optional<double> weight_decay;  ///< nullopt: optimizer.weight_decay
  std::string optimizer;               ///< empty: optimizer.name
  PartOptions options;                 ///< of `optimizer`
  FilePosition position;
};

/// The parsed value of optimizer.groups. Error(config) with file and line for anything but a list of {match: PATTERN or
/// [PATTERN, ...], lr_factor: NUMBER, weight_decay: NUMBER}, where `lr` may take the place of lr_factor, and `name`
/// names another optimizer, whose keys follow.
std::vector<GroupRule> group_rules(const ResolvedRun& run);

/// The settings of one parameter.
struct ParameterSettings {
  double lr_factor = 1;
  double weight_decay = 0;
  std::optional<std::size_t> optimizer{};  ///< the entry of optimizer.groups that names an optimizer

  bool operator==(const ParameterSettings&) const = default;
};

/// The section with the optimizer that an entry of optimizer.groups names.
OptimizerConfig config_of_group(const ResolvedRun& run, std::size_t entry);

/// The settings of each of `parameters`, which are all trained parameters. The first entry of optimizer.groups that
/// matches a name counts. Weight decay is the value of the entry if it has one; else 0 if optimizer.no_decay covers the
/// parameter; else optimizer.weight_decay. By optimizer.no_decay, of parameters with at most one dimension,
///   biases: are those whose name ends in "bias";
///   norms:  are all others, and the biases of layers whose `weight` has at most one dimension, too;
/// so [norms, biases] covers all of them, whatever their names. Error(config) for a pattern that matches no name.
std::vector<ParameterSettings> settings_of(const ResolvedRun& run, const NamedParameters& parameters);

/// The run without those patterns of optimizer.groups that match none of `parameters`, which are a part of the
/// trained parameters. Their settings do not change.
ResolvedRun without_idle_patterns(ResolvedRun run, const NamedParameters& parameters);

/// One line for each distinct setting, with its parameters; empty if all parameters have the same settings.
std::string describe_groups(const ResolvedRun& run, const NamedParameters& parameters);

}  // namespace lockstep::train
