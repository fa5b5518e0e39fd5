// The metrics that a configuration names, and the rules between them, the task, and the callbacks that compare values.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/train/task.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

/// An item of `metrics`.
struct ChosenMetric {
  const MetricPart* part = nullptr;  ///< of the list that was given
  PartOptions options;
  FilePosition position;

  /// MetricPart::values of these options; empty: unknown before an evaluation.
  std::vector<std::string> values() const;
};

/// Error(config) with the place in the file for unknown names and options, and for a value that two items measure.
std::vector<ChosenMetric> chosen_metrics(const ConfigNode& list, const std::vector<MetricPart>& parts);

/// The errors of chosen_metrics, and Error(config) for a metric of classes where the task's targets are numbers, or the
/// other way round. No error if the metric or the task does not declare its targets.
void check_metrics(const ResolvedRun& config);

/// The names of all values of an evaluation, of the loss, the task and the metrics, each once, with stars as in
/// MetricPart::values; nullopt: unknown before an evaluation.
std::optional<std::vector<std::string>> value_names(const ResolvedRun& config);

}  // namespace lockstep::train
