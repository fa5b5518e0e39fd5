// The callbacks that a configuration can switch on: loss lines, epoch lines and the progress bar.
#pragma once

#include <lockstep/train/callback.h>
#include <lockstep/train/output/console.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::train {

/// `epoch: 1 step: 1, loss is 2.3025854`, steps counted within the epoch, the loss with 8 significant digits.
std::string loss_line(std::int64_t epoch, std::int64_t step_in_epoch, double loss);

/// Writes the loss line of this rank's own samples every `every` steps to the log and to the console; nullopt: about
/// ten times an epoch, and at the first step of the run.
class LossLog final : public Callback {
 public:
  LossLog(Console& console, std::optional<std::int64_t> every);
  void after_step(RunView& run, const StepReport& report) override;

 private:
  Console& console_;
  std::optional<std::int64_t> every_;
};

/// Writes time and throughput of each epoch, and each evaluation, to the log and to the console.
class EpochLog final : public Callback {
 public:
  explicit EpochLog(Console& console);
  void after_epoch(RunView& run, const EpochReport& report) override;
  void after_evaluation(RunView& run, const Evaluation& evaluation) override;

 private:
  Console& console_;
};

/// Shows the progress of the run, its throughput and the remaining time. Redraws ten times a second at most (one line
/// per five seconds where there is no terminal).
class Progress final : public Callback {
 public:
  explicit Progress(Console& console);
  void after_step(RunView& run, const StepReport& report) override;
  void after_run(RunView& run) override;

 private:
  Console& console_;
  std::chrono::steady_clock::time_point next_draw_{};
  double step_seconds_ = 0;  ///< smoothed
};

/// `accuracy 0.9750, loss 0.1250`, and " with the average of the weights (ema)" where it is of these.
std::string values_text(const Evaluation& evaluation);

/// `epoch 2/10 [=====>    ]  45% step 70/156 loss 1.2345 812 samples/s 0:42 left`
std::string progress_text(const StepReport& report, double step_seconds);

/// "0:42", "12:05", "3:07:09".
std::string clock_text(double seconds);

}  // namespace lockstep::train
