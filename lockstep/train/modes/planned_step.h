// The training step of a run as a graph, for the planner.
#pragma once

#include <lockstep/plan/graph.h>
#include <lockstep/plan/trace/trace_step.h>
#include <lockstep/train/program.h>

#include <cstdint>
#include <vector>

namespace lockstep::train {

struct PlannedStep {
  plan::Graph graph;
  double seconds = 0;  ///< the duration of the trace
};

/// The tensors of a batch of `samples` samples, in the order of their names. Reads no data if the program has an
/// example.
std::vector<plan::ExampleInput> inputs_of_step(const Program& program, std::int64_t samples);

/// One step of the program's model, task and optimizer over a batch like `example`, but of `samples` samples, traced
/// without memory for parameters. Errors as plan::trace_step().
PlannedStep trace_run(const RunConfig& config, const Program& program, const samples::Batch& example,
                      std::int64_t samples);

/// One step of the program's model, task and optimizer over a batch of `samples` samples, traced without memory for
/// parameters. Reads no data if the program has an example. Errors as configured_program() and plan::trace_step().
PlannedStep trace_run(const RunConfig& config, const Program& program, std::int64_t samples);

}  // namespace lockstep::train
