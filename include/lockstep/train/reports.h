// Reports of steps, epochs and evaluations, as values for callbacks and programs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

/// A picture about a model. A plain value.
struct ShownPicture {
  std::string name{};  ///< of its file, without an ending, and of its curve in TensorBoard
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<std::uint8_t> pixels{};  ///< red, green, blue; row by row, height * width * 3
};

/// Replaces `file` atomically by the picture as PNG. Error(invalid_argument) unless both sides are from 1 to 65535 and
/// there are height * width * 3 pixels; Error(io) naming the file. Thread-safe for different files.
void write_png(const std::filesystem::path& file, const ShownPicture& picture);

// The result of an evaluation of a model in a training run.

/// The metrics over the evaluation data of all ranks. Exact: every sample counts once.
struct Evaluation {
  std::int64_t epoch = 0;  ///< epochs finished before the evaluation, including a last one that was cut short
  std::int64_t step = 0;   ///< optimizer steps done before the evaluation
  double loss = 0;         ///< mean of the task's loss over all samples, or over its items
  /// The task's metrics by name; of the classification of pictures: `accuracy`, the share of pictures whose largest
  /// logit is that of their label.
  std::map<std::string, double, std::less<>> metrics{};
  std::int64_t samples = 0;  ///< of all ranks
  double seconds = 0;        ///< duration of the evaluation on this rank
  std::string shown{};       ///< the task's text about the model, such as a sample; not part of checkpoints
  /// The task's pictures about the model, on rank 0; in callbacks only.
  std::vector<ShownPicture> pictures{};
  std::string weights{};  ///< a name of the weights that were evaluated, "the average of the weights (ema)"; empty: the
                          ///< model's own
};

/// One optimizer step. Epochs and steps count from 1.
struct StepReport {
  std::int64_t epoch = 0;
  std::int64_t epochs = 0;  ///< of the whole run, the last one perhaps cut short
  std::int64_t step_in_epoch = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t step = 0;  ///< of the whole run, resumed parts included
  std::int64_t total_steps = 0;
  std::optional<double> local_loss =
      std::nullopt;  ///< mean over this rank's samples; none when it had no sample in this step
  /// Mean over all ranks' samples: at steps for which metrics are written, and at all other steps if it is free of
  /// cost. Only
  /// with parallel.server.consistency some samples may be missing.
  std::optional<double> loss = std::nullopt;
  double lr = 0;
  bool skipped = false;      ///< gradients overflowed, so nothing was updated (loss_scaler)
  std::int64_t samples = 0;  ///< samples of all ranks
  double seconds = 0;  ///< since the previous step or the start of the epoch: waiting for data and callbacks included
  std::int64_t steps = 1;  ///< number of steps that `samples` and `seconds` cover: several with train.dataset_sink_mode
};

/// Whether an action with this period in steps is due with this report; never for 0.
inline bool is_due(std::int64_t every, const StepReport& report) {
  return every > 0 && report.step / every > (report.step - report.steps) / every;
}

struct EpochReport {
  std::int64_t epoch = 0;
  std::int64_t epochs = 0;
  std::int64_t steps = 0;    ///< made in this epoch by this process, so fewer after a resume
  std::int64_t samples = 0;  ///< samples of all ranks in those steps
  double seconds = 0;        ///< of those steps, with their callbacks: no evaluation, no checkpoint
};

}  // namespace lockstep::train
