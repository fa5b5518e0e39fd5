// The configuration of an evaluation or a prediction, with weights that the command line names.
#pragma once

#include <lockstep/train/config.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::train {

/// What overrides the configuration in `path`, if there is one: model.weights=`weights`, no callbacks, and `overrides`.
/// `average`: model.weights_average, which takes the average of the weights in a checkpoint. The keys weights_prefix,
/// weights_rename, weights_except and weights_strict are about that file, except where `path` names weights of its own:
/// there they are about those, with which its run began, and only those among `overrides` count.
std::vector<std::string> measured_overrides(const std::optional<std::filesystem::path>& path,
                                            std::span<const std::string> overrides, const std::string& weights,
                                            bool average = false);

/// load_run_config() with these parts and those overrides.
RunConfig load_measured_config(const std::filesystem::path& path, std::span<const std::string> overrides,
                               const std::string& weights, std::shared_ptr<const Parts> parts, bool average = false);

}  // namespace lockstep::train
