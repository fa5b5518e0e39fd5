// The training step of a run as a graph, for the planner.
#pragma once

#include <lockstep/models/registry.h>
#include <lockstep/plan/graph.h>
#include <lockstep/train/config.h>

namespace lockstep::train {

/// The configured model with shapes only, without memory for parameters. Errors as model_spec().
models::Classifier model_without_memory(const RunConfig& config);

struct PlannedStep {
  plan::Graph graph;
  double seconds = 0;  ///< that tracing took
};

/// One step of the configured model, loss and optimizer over a batch of `pictures` pictures, traced without memory for
/// parameters. Reads no data. Errors as model_spec() and plan::trace_step().
PlannedStep trace_run(const RunConfig& config, std::int64_t pictures);

}  // namespace lockstep::train
