// A run as the planner needs it: its training step as a graph, the memory of that, and its embedding tables.
#pragma once

#include <lockstep/models/gpt.h>
#include <lockstep/plan/cost/simulate.h>
#include <lockstep/plan/graph.h>
#include <lockstep/plan/tables/table_advice.h>
#include <lockstep/plan/trace/trace_step.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/train/program.h>

#include <cstdint>
#include <optional>
#include <string>
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
PlannedStep trace_run(const ResolvedRun& config, const Program& program, const samples::Batch& example,
                      std::int64_t samples);

/// One step of the program's model, task and optimizer over a batch of `samples` samples, traced without memory for
/// parameters. Reads no data if the program has an example. Errors as configured_program() and plan::trace_step().
PlannedStep trace_run(const ResolvedRun& config, const Program& program, std::int64_t samples);

/// One step of a GPT with AdamW over `batch` windows of the whole context, traced without memory for parameters. Errors
/// as models::gpt() and plan::trace_step().
PlannedStep trace_gpt(const models::GptShape& shape, std::int64_t batch);

/// The memory of one rank with the whole model, for a batch like `example` of `samples` samples. Errors as
/// plan::trace_step().
plan::Memory memory_of_step(const ResolvedRun& config, const Program& program, const samples::Batch& example,
                            std::int64_t samples);

/// A warning for users about a step that does not fit into memory; empty if it fits. The parameters of `ranks` ranks
/// are already allocated, and count as used.
std::string why_too_large(const plan::Memory& needed, int ranks, std::int64_t samples, std::uint64_t available);

/// The tables of the run's model, with the rows that the samples of one of `workers` workers have in a step, counted in
/// samples of the training data. `servers`: the number of parameter servers; nullopt: cluster.server_num. Returns
/// nullopt if the model has no tables, or the optimizer is not a row optimizer, so that there is no choice. Errors of
/// configured_program() and of the data.
std::optional<plan::TableQuestion> planned_tables(const ResolvedRun& config, const Program& program, int workers,
                                                  std::optional<int> servers);

}  // namespace lockstep::train
