// The metric that callbacks compare evaluations by.
#pragma once

#include <lockstep/train/callback.h>
#include <lockstep/train/resolved_run.h>

#include <cstdint>
#include <string>

namespace lockstep::train {

/// "loss" or the name of one of the task's metrics; `mode`: max, min, or auto, which is min for loss, perplexity, mae,
/// mse, rmse and names that contain "error" or "loss", else max.
struct MetricChoice {
  std::string metric = "loss";
  std::string mode = "auto";

  bool wants_max() const;
  /// Error(config) for a metric that no evaluation of this run will have. No error where the names are unknown before
  /// an evaluation: with a task or metrics that do not declare their names.
  void require_possible(const ResolvedRun& config) const;
  /// Error(config) that lists the available metrics when the task has no such metric.
  double of(const Evaluation& evaluation) const;
  /// Whether `value` is better than `than` by more than `min_delta`. NaN is never better, and everything is better than
  /// NaN.
  bool is_better(double value, double than, double min_delta = 0) const;
};

}  // namespace lockstep::train
