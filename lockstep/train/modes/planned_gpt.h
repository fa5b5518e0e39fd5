// The training step of a GPT that no run configures, as a graph, for the planner.
#pragma once

#include <lockstep/models/gpt.h>
#include <lockstep/train/modes/planned_step.h>

#include <cstdint>

namespace lockstep::train {

/// One step of a GPT with AdamW over `batch` windows of the whole context, traced without memory for parameters. Errors
/// as models::gpt() and plan::trace_step().
PlannedStep trace_gpt(const models::GptShape& shape, std::int64_t batch);

}  // namespace lockstep::train
