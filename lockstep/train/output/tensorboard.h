// WORK_DIR/tensorboard/: the curves of a run for TensorBoard.
#pragma once

#include <lockstep/train/callback.h>
#include <lockstep/train/output/only_informs.h>
#include <lockstep/train/viewers/event_file.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace lockstep::train {

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
