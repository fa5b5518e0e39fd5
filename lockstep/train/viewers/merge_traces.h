// The traces of several ranks in one file, on one time line.
#pragma once

#include <chrono>
#include <filesystem>
#include <span>

namespace lockstep::train {

/// A file of a TraceFile, and the offset from its times to a clock that all ranks have in common.
struct RankTrace {
  std::filesystem::path file;
  std::chrono::nanoseconds clock_offset{};
};

/// Writes one file with the events of all (as a whole or not at all), each rank as a separate process. The first bar
/// begins at 0. The file of a killed process counts up to its last whole line. Memory: one line. Times are exact to a
/// quarter of a microsecond for clocks that count from 1970, and to a nanosecond for those that count from the start of
/// the machine. Error(io) naming the file that cannot be read or written; Error(data) when one is not a file of a
/// TraceFile.
void merge_traces(std::span<const RankTrace> traces, const std::filesystem::path& merged);

}  // namespace lockstep::train
