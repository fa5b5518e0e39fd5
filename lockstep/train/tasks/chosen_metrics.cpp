// The parser of the key metrics, with checks for repeats and for targets that do not fit the task.
#include <lockstep/train/tasks/chosen_metrics.h>

#include <lockstep/base/error.h>
#include <lockstep/base/home_paths.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/yaml_text.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/keys/refused_words.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace lockstep::train {
namespace {

/// The metrics of the task beside the loss, and the kind of its targets.
struct TaskFacts {
  std::string name;
  std::optional<std::vector<std::string>> measures;
  Targets targets = Targets::any;
};

TaskFacts facts_of_task(const RunConfig& config) {
  if (config.model.is_own) return {"the program's task", std::nullopt, Targets::any};
  if (!has_task(config)) return {"classification", {{"accuracy"}}, Targets::classes};
  const auto& parts = parts_or_shipped(config.task.parts);
  const auto* model = find_part(parts.models, config.model.name);
  const auto& name = config.task.name.empty() && model != nullptr ? model->task : config.task.name;
  const auto* task = find_part(parts.tasks, name);
  return task == nullptr ? TaskFacts{name, std::nullopt, Targets::any} : TaskFacts{name, task->measures, task->targets};
}

std::string_view words_of(Targets targets) { return targets == Targets::classes ? "classes" : "numbers"; }

std::vector<std::string> names_for(Targets targets, const std::vector<MetricPart>& parts) {
  auto names = names_of(parts);
  std::erase_if(names, [&](const auto& name) {
    const auto of = find_part(parts, name)->targets;
    return of != targets && of != Targets::any;
  });
  return names;
}

}  // namespace

std::vector<std::string> ChosenMetric::values() const {
  return part->values ? part->values(options) : std::vector<std::string>{};
}

std::vector<ChosenMetric> chosen_metrics(const ConfigNode& list, const std::vector<MetricPart>& parts) {
  std::vector<ChosenMetric> chosen;
  std::map<std::string, std::size_t> seen;  // the item of each measured value
  for (const auto& item : read_named_list(list, "metrics")) {
    const auto* part = find_part(parts, item.name);
    if (part == nullptr) {
      const auto names = names_of(parts);
      throw Error(ErrorKind::config, "metrics",
                  fmt::format("there is no metric '{}'{}; known are {}", item.name, did_you_mean(item.name, names),
                              fmt::join(names, ", ")),
                  item.position);
    }
    ChosenMetric metric{part, part->options, item.position};
    read_options(item.arguments, "metrics." + part->name, metric.options, refused_words());
    auto measured = metric.values();
    if (measured.empty()) measured = {fmt::format("{} {}", item.name, print_yaml_flow(item.arguments))};
    for (const auto& value : measured) {
      const auto [first, is_new] = seen.emplace(value, chosen.size());
      if (is_new) continue;
      throw Error(ErrorKind::config, "metrics",
                  fmt::format("items {} and {} both measure '{}'; remove one, or give them options that differ",
                              first->second + 1, chosen.size() + 1, part->values ? value : item.name),
                  item.position);
    }
    chosen.push_back(std::move(metric));
  }
  return chosen;
}

void check_metrics(const RunConfig& config) {
  const auto& parts = parts_or_shipped(config.model.parts).metrics;
  const auto task = facts_of_task(config);
  for (const auto& metric : chosen_metrics(config.metrics, parts)) {
    const auto of = metric.part->targets;
    if (of == Targets::any || task.targets == Targets::any || of == task.targets) continue;
    throw Error(ErrorKind::config, "metrics",
                fmt::format("'{}' compares {}, and the targets of the task {} are {}; metrics for them are {}",
                            metric.part->name, words_of(of), task.name, words_of(task.targets),
                            fmt::join(names_for(task.targets, parts), ", ")),
                metric.position);
  }
}

std::optional<std::vector<std::string>> value_names(const RunConfig& config) {
  const auto task = facts_of_task(config);
  if (!task.measures) return std::nullopt;
  std::vector<std::string> names{"loss"};
  const auto add = [&](const std::vector<std::string>& more) {
    for (const auto& name : more) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  };
  add(*task.measures);
  for (const auto& metric : chosen_metrics(config.metrics, parts_or_shipped(config.model.parts).metrics)) {
    const auto values = metric.values();
    if (values.empty()) return std::nullopt;
    add(values);
  }
  return names;
}

}  // namespace lockstep::train
