// The files that a run writes while it trains: WORK_DIR/metrics.jsonl with a JSON object for each logged step,
// WORK_DIR/tensorboard/ with the same curves for TensorBoard, and WORK_DIR/pictures/ with the pictures of tasks after
// each evaluation. They only inform users: if one cannot be written, the run continues without it.
#pragma once

#include <lockstep/train/callback.h>
#include <lockstep/train/viewers/event_file.h>
#include <lockstep/train/viewers/growing_file.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::train {

/// One kind of output that only informs users. Not thread-safe.
class OnlyInforms {
 public:
  /// `what`: its name in messages, such as "loss.svg".
  explicit OnlyInforms(std::string what) : what_(std::move(what)) {}

  /// Calls `write`, which makes no collective. Errors of the file system are reported once, and again when a write
  /// succeeds after them; every call tries to write. Returns whether the output was written. Other exceptions
  /// propagate.
  bool write(const RunView& run, const std::function<void()>& write);

 private:
  std::string what_;
  bool refused_ = false;
};

/// A file of JSON lines, each with its "step" of the run. Continues after `steps_done` steps. Later lines belong to a
/// part of the run that is repeated, and are removed first. Everything from the first invalid line on is also removed
/// (a killed process may leave half a line). Each line is written to the system at once; a line that cannot be written
/// is lost, and reported (OnlyInforms). Not thread-safe.
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

/// Writes Evaluation::pictures as NAME_step_N.png. Makes the folder with the first one.
class PictureWriter final : public Callback {
 public:
  explicit PictureWriter(std::filesystem::path folder);

  std::string name() const override { return "pictures"; }
  void after_evaluation(RunView& run, const Evaluation& evaluation) override;

 private:
  std::filesystem::path folder_;
  OnlyInforms informs_;
};

/// Writes train/loss, train/lr and train/samples_per_s at the steps of metrics.jsonl (every `every` steps, 0: none),
/// with its values, and evaluation/... for each evaluation. Viewers see each value at once. Values that cannot be
/// written are lost, and reported (OnlyInforms).
class TensorBoardLog final : public Callback {
 public:
  TensorBoardLog(std::filesystem::path folder, std::int64_t every);

  std::string name() const override { return "tensorboard"; }
  /// Continues after the steps of the run in a new file; at step 0 the files of another run are removed. Values that
  /// the previous process may not have written (the last of those steps, evaluations since then) are written again at
  /// their steps.
  void before_run(RunView& run) override;
  void after_step(RunView& run, const StepReport& report) override;
  void after_evaluation(RunView& run, const Evaluation& evaluation) override;

  /// Writes further values, from before_run on. `values` makes no collective.
  void add(const RunView& run, const std::function<void(EventFile&)>& values);

 private:
  void write(const RunView& run, const StepReport& report);

  std::filesystem::path folder_;
  std::int64_t every_;
  std::int64_t first_ = 0;  ///< the first step whose values may be missing in the existing files
  OnlyInforms informs_;
  std::optional<EventFile> file_;
  std::int64_t samples_ = 0;  ///< since the last step that was written
  double seconds_ = 0;
};

}  // namespace lockstep::train
