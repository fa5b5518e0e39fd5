// A file of JSON lines, each with its "step" of the run.
#pragma once

#include <lockstep/train/output/only_informs.h>
#include <lockstep/train/viewers/growing_file.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace lockstep::train {

/// Continues after `steps_done` steps. Later lines belong to a part of the run that is repeated, and are removed first.
/// Everything from the first invalid line on is also removed (a killed process may leave half a line). Each line is
/// written to the system at once; a line that cannot be written is lost, and reported (OnlyInforms). Not thread-safe.
class StepLines {
 public:
  StepLines(std::filesystem::path file, std::int64_t steps_done);

  /// Opens the file. Each write() calls it again if the file is closed.
  void open(const RunView& run);
  /// The step of the last line that open() kept; 0: none, or it could not be opened.
  std::int64_t last_kept() const { return last_kept_; }

  void write(const RunView& run, std::int64_t step, std::string_view line);

 private:
  void open_now();

  std::filesystem::path path_;
  std::int64_t steps_done_;  ///< lines in the file count up to this step
  std::int64_t last_kept_ = 0;
  OnlyInforms informs_;
  std::optional<GrowingFile> file_;
};

}  // namespace lockstep::train
