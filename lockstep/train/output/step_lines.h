// A file of JSON lines, each of which has the "step" of a run that it is of.
#pragma once

#include <lockstep/train/output/only_informs.h>
#include <lockstep/train/viewers/growing_file.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace lockstep::train {

/// Goes on after `steps_done` steps: later lines, of a part of the run that has to be done again, are removed first, as
/// is all from the first line that is none (a killed process may leave half of one). Each line is written to the system
/// at once; one that cannot be written is lost, and said (OnlyInforms). Not thread-safe.
class StepLines {
 public:
  StepLines(std::filesystem::path file, std::int64_t steps_done);

  /// Opens the file, and is repeated by each write() that finds it closed.
  void open(const RunView& run);
  /// The step of the last line that open() kept; 0: none, or it could not be opened.
  std::int64_t last_kept() const { return last_kept_; }

  void write(const RunView& run, std::int64_t step, std::string_view line);

 private:
  void open_now();

  std::filesystem::path path_;
  std::int64_t steps_done_;  ///< up to where lines count that are in the file
  std::int64_t last_kept_ = 0;
  OnlyInforms informs_;
  std::optional<GrowingFile> file_;
};

}  // namespace lockstep::train
