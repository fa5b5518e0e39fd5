// The memory that the first step of a run needs, and whether this machine has it.
#pragma once

#include <lockstep/plan/cost/simulate.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/train/program.h>

#include <cstdint>
#include <string>

namespace lockstep::train {

/// Of one rank that has the whole model, with a batch like `example` of so many samples. Errors as plan::trace_step().
plan::Memory memory_of_step(const RunConfig& config, const Program& program, const samples::Batch& example,
                            std::int64_t samples);

/// What people should know before a step that does not fit: empty where it fits. The parameters of `ranks` ranks are
/// there already, and count as used.
std::string why_too_large(const plan::Memory& needed, int ranks, std::int64_t samples, std::uint64_t available);

}  // namespace lockstep::train
