// The choice and comparison of the metric that early stopping and best checkpoints follow: direction, NaN, min_delta.
#include <lockstep/train/callbacks/metric_choice.h>

#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/tasks/chosen_metrics.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace lockstep::train {
namespace {

[[noreturn]] void fail_without(const std::string& metric, const std::vector<std::string>& names) {
  fail(ErrorKind::config, "callbacks.use", "the evaluation has no metric '{}'; it has {}{}", metric,
       fmt::join(names, ", "), did_you_mean(metric, names));
}

}  // namespace

void MetricChoice::require_possible(const ResolvedRun& config) const {
  const auto names = value_names(config);
  if (!names || std::ranges::any_of(*names, [this](const auto& name) { return fits(metric, name); })) return;
  fail_without(metric, *names);
}

void require_evaluations(const RunView& run, std::string_view callback) {
  if (run.evaluation_data() != nullptr) return;
  const auto& config = run.config();
  std::string keys;
  const auto* part = config.has_own_data ? nullptr : find_part(config.parts->data, config.data.name);
  if (part != nullptr) {
    for (const auto& key :
         list_fields([options = part->options](ConfigFields& fields) mutable { options.visit(fields); })) {
      if (key.path.starts_with("eval")) keys += fmt::format(" by data.{}", key.path);
    }
  }
  fail(
      ErrorKind::config, "callbacks.use",
      "{} acts on evaluations, and the run has no data for them, so that it would never act; give some{}, or remove it",
      callback, keys);
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
