// WORK_DIR/metrics.jsonl: one JSON object for each logged step.
#pragma once

#include <lockstep/train/callback.h>
#include <lockstep/train/output/step_lines.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

/// One line: {"epoch":1,"step":1,"loss":2.3,"lr":0.01,"samples_per_s":812.5}. `step` counts from 1 over the whole run,
/// `loss` is the mean over all ranks' samples of that step, `samples_per_s` is the rate of all ranks since the previous
/// line.
struct MetricsLine {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  double loss = 0;
  double lr = 0;
  double samples_per_s = 0;
};

std::string to_json(const MetricsLine& line);

/// All lines up to the first incomplete one (a killed process may leave half a line); empty without a file.
std::vector<MetricsLine> read_metrics(const std::filesystem::path& file);

/// Appends to `file` the lines of a run that continues after `steps_done` steps (StepLines). `logged` is the last of
/// those steps that needs a line: before_run writes the line if the previous process ended before it wrote it. Only
/// this last line can be missing.
class MetricsFile final : public Callback {
 public:
  MetricsFile(const std::filesystem::path& file, std::int64_t every, std::int64_t steps_done,
              const std::optional<StepReport>& logged = std::nullopt);
  void before_run(RunView& run) override;
  void after_step(RunView& run, const StepReport& report) override;

 private:
  StepLines lines_;
  std::int64_t every_;
  std::optional<StepReport> logged_;
  std::int64_t samples_ = 0;  ///< since the last line
  double seconds_ = 0;
};

}  // namespace lockstep::train
