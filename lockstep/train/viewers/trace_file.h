// Chrome trace files: the activities of a rank's threads as bars on a time line.
//
// The JSON array format of the Trace Event Format, which chrome://tracing and ui.perfetto.dev open: one event per line.
// The closing bracket may be missing there, so the file of a killed process can be opened too.
#pragma once

#include <lockstep/train/viewers/growing_file.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace lockstep::train {

/// The details that a viewer shows for a selected bar.
struct TraceArgument {
  std::string_view name;
  std::variant<std::int64_t, std::string_view> value;
};

/// One bar. Texts that are not UTF-8 are shown with replacement characters.
struct TraceSpan {
  std::string_view name;
  std::string_view category;
  std::int64_t thread = 0;           ///< any number; bars of one thread nest or follow one another
  std::chrono::nanoseconds begin{};  ///< on one clock for the whole file, e.g. time_since_epoch() of a steady clock
  std::chrono::nanoseconds duration{};
  std::vector<TraceArgument> arguments{};
};

/// Writes one file. Thread-safe.
class TraceFile {
 public:
  /// A new file in place of one that is there, for process `rank` with the title "rank N". Error(io) with the path and
  /// the reason.
  TraceFile(const std::filesystem::path& path, int rank);
  /// Ends the array; a failure is not reported.
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  /// A remark beside the title of the process.
  void label(std::string_view remark);

  /// Gives a thread a title.
  void name_thread(std::int64_t thread, std::string_view title);

  /// These may write the collected bars, so Error(io) like flush().
  void add(const TraceSpan& span);

  /// Passes all bars to the system, so that they outlive this process. Error(io) with the path and the reason; the bars
  /// since the last flush are then lost, and the file stays readable.
  void flush();

 private:
  std::mutex mutex_;
  int rank_;
  GrowingFile file_;
};

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
