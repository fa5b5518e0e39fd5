// The model of a run: its sizes, its construction, and its initial weights.
#pragma once

#include <lockstep/models/registry.h>
#include <lockstep/train/config_keys.h>

#include <string>
#include <vector>

namespace c10 {
struct Device;
}

namespace lockstep::train {

/// The model's sizes: inputs with the shape of data.name's pictures after data.train_transforms, outputs as configured.
/// Error(config) when evaluation's transforms give another shape.
models::ModelSpec model_spec(const RunConfig& config);

/// Builds the model with the weights that system.seed gives (the same on every rank), in the memory format asked for,
/// on `device`.
models::Classifier make_model(const RunConfig& config, const c10::Device& device);

/// Loads model.weights into the model; returns lines for the log. Error(config) when the file does not hold weights of
/// this model.
std::vector<std::string> start_from_weights(const models::Classifier& model, const ModelConfig& config);

/// The output of `--dry-run`: the whole configuration as YAML, the preparation of pictures, and the model's summary.
/// Reads no data and changes no file. Errors as read_run_config, model_spec and the pipeline.
std::string describe_run(const RunConfig& config);

}  // namespace lockstep::train
