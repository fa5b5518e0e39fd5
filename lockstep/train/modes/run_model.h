// The model of a run: its construction, and its initial weights.
#pragma once

#include <lockstep/train/modes/forward.h>
#include <lockstep/train/program.h>

#include <string>
#include <vector>

namespace c10 {
struct Device;
}

namespace lockstep::train {

/// Makes the program's model with the weights that system.seed gives (the same on every rank), in the configured memory
/// format, on `device`. Error(invalid_argument) when the program has no model or no task.
Model make_model(const ResolvedRun& config, const Program& program, const c10::Device& device);

/// The same with shapes only, without memory for parameters.
Model model_without_memory(const ResolvedRun& config, const Program& program);

/// The later use of the model: a measured model must not have tensors with random values.
enum class WeightsFor { training, measuring };

/// Loads model.weights into the model; returns lines for the log. Error(config) when the file does not hold weights of
/// this model; for a measured model also if tensors would keep their random values, even if the configuration allows
/// that.
std::vector<std::string> start_from_weights(const Model& model, const ModelConfig& config, WeightsFor purpose);

/// The initial weights of a run: those that the model's part loads (ModelPart::start), then model.weights, if given.
/// Returns lines for users. Errors of both.
std::vector<std::string> first_weights(const Model& model, const ResolvedRun& config);

/// The output of `--dry-run`: the whole configuration as YAML, the preparation of the data, and the model's summary.
/// Reads no data and changes no file. Errors as read_run_config and configured_program.
std::string describe_run(const ResolvedRun& config, const Program& program);

}  // namespace lockstep::train
