// Parameters that are not trained (model.freeze).
#pragma once

#include <lockstep/train/named_tensors.h>

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

}  // namespace lockstep::train
