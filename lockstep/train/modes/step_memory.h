// The memory that the first step of a run needs, and whether this machine has it.
#pragma once

#include <lockstep/plan/cost/simulate.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/train/program.h>

#include <cstdint>
#include <string>

namespace lockstep::train {

/// The memory of one rank with the whole model, for a batch like `example` of `samples` samples. Errors as
/// plan::trace_step().
plan::Memory memory_of_step(const RunConfig& config, const Program& program, const samples::Batch& example,
                            std::int64_t samples);

/// A warning for users about a step that does not fit into memory; empty if it fits. The parameters of `ranks` ranks
/// are already allocated, and count as used.
std::string why_too_large(const plan::Memory& needed, int ranks, std::int64_t samples, std::uint64_t available);

}  // namespace lockstep::train
