// WORK_DIR/loss.svg: the loss curve over the steps, as a picture for any browser.
#pragma once

#include <lockstep/train/callback.h>
#include <lockstep/train/output/run_files.h>

#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

struct Axis {
  double low = 0;
  double high = 1;
  std::vector<double> ticks;  ///< ascending, within low..high
};

/// An axis that covers low..high with about `wanted` ticks at multiples of 1, 2 or 5 times a power of ten. Without
/// `extend` it ends exactly at low and high; with it, at the ticks around them. Equal ends are moved apart.
Axis make_axis(double low, double high, int wanted, bool extend);

/// A tick as short text: "0.25", "1500", "20k", "1e-05".
std::string tick_text(double value);

/// Loss against step: each logged value as a thin line, a smoothed one above it, a dashed line where an epoch begins,
/// and a dot for the loss of each evaluation; the axis is logarithmic where the largest value is 50 times the least.
/// Below it a metric of the evaluations, accuracy or the first by name, if they have some. `lines` ascend by step;
/// without lines the picture has a text about that.
std::string draw_loss_curve(std::span<const MetricsLine> lines, std::span<const Evaluation> evaluations,
                            std::string_view title);

/// Draws the picture again from the metrics file at the end, and after an epoch as long as the time for drawing, which
/// grows with the number of lines, stays below a hundredth of the run's time.
class LossCurve final : public Callback {
 public:
  /// `evaluations`: of the parts of the run before this process.
  LossCurve(std::filesystem::path metrics, std::filesystem::path picture, std::string title,
            std::vector<Evaluation> evaluations);
  void after_epoch(RunView& run, const EpochReport& report) override;
  void after_evaluation(RunView& run, const Evaluation& evaluation) override;
  void after_run(RunView& run) override;

 private:
  void draw(const RunView& run);

  std::filesystem::path metrics_;
  std::filesystem::path picture_;
  std::string title_;
  std::vector<Evaluation> evaluations_;
  OnlyInforms informs_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace lockstep::train
