#include <lockstep/train/callbacks/metric_choice.h>

#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/train/configuration/config_keys.h>
#include <lockstep/train/part_kinds.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace lockstep::train {
namespace {

/// Those of the task beside the loss; nullopt: only an evaluation tells.
std::optional<std::vector<std::string>> measures_of_task(const RunConfig& config) {
  if (config.model.is_own) return std::nullopt;
  if (!has_task(config)) return std::vector<std::string>{"accuracy"};
  const auto& parts = parts_or_shipped(config.task.parts);
  const auto* model = find_part(parts.models, config.model.name);
  const auto& name = config.task.name.empty() && model != nullptr ? model->task : config.task.name;
  const auto* task = find_part(parts.tasks, name);
  return task != nullptr ? task->measures : std::nullopt;
}

[[noreturn]] void fail_without(const std::string& metric, const std::vector<std::string>& names) {
  fail(ErrorKind::config, "callbacks.use", "the evaluation has no metric '{}'; it has {}{}", metric,
       fmt::join(names, ", "), did_you_mean(metric, names));
}

}  // namespace

void MetricChoice::require_possible(const RunConfig& config) const {
  auto names = measures_of_task(config);
  if (!names || metric == "loss") return;
  const auto& parts = parts_or_shipped(config.model.parts).metrics;
  for (const auto& item : read_named_list(config.metrics, "metrics")) {
    const auto* part = find_part(parts, item.name);
    if (part == nullptr || part->values_begin_with.empty() || metric.starts_with(part->values_begin_with)) return;
    names->push_back(item.name);
  }
  if (std::ranges::find(*names, metric) != names->end()) return;
  names->insert(names->begin(), "loss");
  fail_without(metric, *names);
}

bool MetricChoice::wants_max() const {
  if (mode != "auto") return mode == "max";
  const auto has = [this](const char* word) { return metric.find(word) != std::string::npos; };
  const auto is = [this](const char* word) { return metric == word; };
  return !(has("loss") || has("error") || is("perplexity") || is("mae") || is("mse") || is("rmse"));
}

double MetricChoice::of(const Evaluation& evaluation) const {
  if (metric == "loss") return evaluation.loss;
  const auto found = evaluation.metrics.find(metric);
  if (found != evaluation.metrics.end()) return found->second;
  std::vector<std::string> names{"loss"};
  for (const auto& [name, value] : evaluation.metrics) names.push_back(name);
  fail_without(metric, names);
}

bool MetricChoice::is_better(double value, double than, double min_delta) const {
  if (std::isnan(value)) return false;
  if (std::isnan(than)) return true;
  return wants_max() ? value > than + min_delta : value < than - min_delta;
}

}  // namespace lockstep::train
