// The model of a run.
#pragma once

#include <lockstep/models/registry.h>
#include <lockstep/train/config.h>

#include <string>

namespace c10 {
struct Device;
}

namespace lockstep::train {

/// The model's sizes: inputs as data.train_transforms leave the pictures of data.name, outputs as configured.
/// Error(config) when evaluation would leave them in another shape.
models::ModelSpec model_spec(const RunConfig& config);

/// Builds the model with the weights that system.seed gives (the same on every rank), in the memory format asked for,
/// on `device`.
models::Classifier make_model(const RunConfig& config, const c10::Device& device);

/// Loads model.weights into the model. Error(config) when they are not this model's or no weights at all.
void start_from_weights(const models::Classifier& model, const ModelConfig& config);

/// What `--dry-run` prints: the whole configuration as YAML, how pictures are prepared, and the model's summary. Reads
/// no data and touches no file. Errors as read_run_config, model_spec and the pipeline.
std::string describe_run(const RunConfig& config);

}  // namespace lockstep::train
