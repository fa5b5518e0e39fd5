// WORK_DIR/result.json: the result of a run, for programs that read it.
#pragma once

#include <lockstep/train/run.h>

#include <filesystem>

namespace lockstep::train {

/// Writes the file as a whole or not at all. Error(io) naming it.
void write_result(const std::filesystem::path& file, const RunResult& result, const RunConfig& config);

}  // namespace lockstep::train
