// The console output of a run: lines on stdout, and a progress bar below them that never mixes with them; and the
// callbacks for it that a configuration can switch on: loss lines, epoch lines and the progress bar.
#pragma once

#include <lockstep/train/callback.h>
#include <lockstep/train/trained_run.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::train {

enum class ProgressStyle {
  off,
  bar,    ///< one line of a terminal, redrawn in place
  lines,  ///< for files and pipes: a whole line from time to time
};

/// "auto" is a bar on a terminal and nothing elsewhere; "on" is a bar on a terminal and lines elsewhere.
ProgressStyle progress_style(std::string_view progress, bool is_terminal);

/// Whether a user sees stdout on a terminal, also through the pipe of a `lockstep run`; false for mpirun's terminals.
bool stdout_is_terminal();

/// Whether the user wants colours: the variable NO_COLOR is empty or not set (no-color.org).
bool wants_colours();

/// Not thread-safe. A console that is not `shown` discards all output. So does a console after a failed write, which is
/// reported once on stderr and in the log.
class Console {
 public:
  /// `colours`: lines that begin with "warning:" or "done:" are coloured.
  Console(bool shown, ProgressStyle style, bool colours = false);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  ~Console();  ///< ends the bar's line

  ProgressStyle style() const { return style_; }

  /// Writes `text` as a separate line above the bar.
  void line(std::string_view text);

  /// Shows `text` as the state of progress and replaces the previous one.
  void progress(std::string_view text);

  /// Leaves the bar as it is and starts a new line.
  void end_progress();

  /// Removes the bar when its progress will not reach the end.
  void clear_progress();

 private:
  void put(std::string_view text);

  bool shown_;
  ProgressStyle style_;
  bool colours_;
  std::string bar_;  ///< as drawn now; empty when there is none
};

/// Writes one line to the log of this rank (level info) and to its console.
void tell(Console& console, std::string_view line);

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

/// `time: 73.2 s, of which compute 81 %, communicate 9 %, wait 4 %, start 5 %; effective training time ratio 0.94`,
/// with the parts from 1 % on, and with the rank that the others waited for, where waits are long.
std::string time_line(const TimeDivision& times);

/// `epoch 2/10 [=====>    ]  45% step 70/156 loss 1.2345 812 samples/s 0:42 left`
std::string progress_text(const StepReport& report, double step_seconds);

/// "0:42", "12:05", "3:07:09".
std::string clock_text(double seconds);

}  // namespace lockstep::train
