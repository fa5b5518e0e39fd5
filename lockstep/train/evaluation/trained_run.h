// The configuration of an evaluation or a prediction: with weights from the command line, and without training.
#pragma once

#include <lockstep/train/resolved_run.h>

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::train {

/// The overrides of the configuration in `path`, if there is one: model.weights=`weights`, no callbacks, and
/// `overrides`. `average`: model.weights_average, which takes the average of the weights in a checkpoint. The keys
/// weights_prefix, weights_rename, weights_except and weights_strict apply to that file. But if `path` names its own
/// weights, the keys in `path` apply to those initial weights, and only the keys in `overrides` count.
std::vector<std::string> measured_overrides(const std::optional<std::filesystem::path>& path,
                                            std::span<const std::string> overrides, const std::string& weights,
                                            bool average = false);

/// The same run as one that does not train, so that neither the length of the training nor a learning rate is missing.
ResolvedRun without_training(ResolvedRun config);

}  // namespace lockstep::train
