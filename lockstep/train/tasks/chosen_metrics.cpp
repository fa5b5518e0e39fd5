// The parser of the key metrics, with checks for repeats and for targets that do not fit the task; and a task with the
// metrics of a configuration.
#include <lockstep/base/config.h>
#include <lockstep/base/config_reader.h>
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/yaml_text.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/foreign_tables.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/task.h>
#include <lockstep/train/tasks/chosen_metrics.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep::train {
namespace {

/// The metrics of the task beside the loss, and the kind of its targets.
struct TaskFacts {
  std::string name;
  std::optional<std::vector<std::string>> measures;
  Targets targets = Targets::any;
};

TaskFacts facts_of_task(const ResolvedRun& config) {
  if (config.has_own_model) return {"the program's task", std::nullopt, Targets::any};
  if (!has_task(config)) return {"classification", {{"accuracy"}}, Targets::classes};
  const auto& parts = *config.parts;
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

/// Names of sums: the metric's index in the list, a slash, and the metric's own name.
std::string prefix_of(std::size_t metric) { return fmt::format("{}/", metric); }

at::Tensor whole_of(const at::Tensor& tensor) { return is_global(tensor) ? full(tensor.detach()) : tensor.detach(); }

class MeasuredTask final : public Task {
 public:
  MeasuredTask(std::shared_ptr<Task> task, std::vector<std::shared_ptr<Metric>> metrics)
      : task_(std::move(task)), metrics_(std::move(metrics)) {}

  Outcome run(torch::nn::Module& model, const samples::Batch& batch, bool measures) override {
    auto outcome = task_->run(model, batch, measures);
    if (!measures) return outcome;
    if (!outcome.output.defined() || !outcome.target.defined()) {
      fail(ErrorKind::config, "metrics",
           "the task gives neither output nor target of a batch (Outcome::output, Outcome::target), so no metric can "
           "be measured of it; remove metrics");
    }
    const torch::NoGradGuard no_grad;
    const auto output = whole_of(outcome.output), target = whole_of(outcome.target);
    for (std::size_t i = 0; i < metrics_.size(); ++i) {
      for (auto& [name, measure] : metrics_[i]->measure(output, target)) {
        outcome.sums.emplace(prefix_of(i) + name, std::move(measure));
      }
      if (auto rows = metrics_[i]->rows(output, target); rows.defined()) outcome.rows.emplace(prefix_of(i), rows);
    }
    return outcome;
  }

  std::int64_t loss_sums() const override { return task_->loss_sums(); }
  at::Tensor loss_of(const at::Tensor& sums) const override { return task_->loss_of(sums); }
  Sums late_sums() override { return task_->late_sums(); }

  Values metrics(const Sums& sums) const override {
    std::vector<Sums> of_metrics(metrics_.size());
    Sums of_task;
    for (const auto& [name, sum] : sums) {
      const auto slash = name.find('/');
      std::size_t metric = metrics_.size();
      for (std::size_t i = 0; slash != std::string::npos && i < metrics_.size(); ++i) {
        if (name.starts_with(prefix_of(i))) metric = i;
      }
      if (metric == metrics_.size()) {
        of_task.emplace(name, sum);
      } else {
        of_metrics[metric].emplace(name.substr(slash + 1), sum);
      }
    }
    auto values = task_->metrics(of_task);
    for (std::size_t i = 0; i < metrics_.size(); ++i) {
      if (of_metrics[i].empty()) continue;  // no batch was measured
      for (const auto& [name, value] : metrics_[i]->values(of_metrics[i])) values.insert_or_assign(name, value);
    }
    return values;
  }

  Values metrics_of_rows(const Rows& rows) const override {
    Rows of_task;
    Values own;
    for (const auto& [name, tensor] : rows) {
      std::size_t metric = 0;
      while (metric < metrics_.size() && name != prefix_of(metric)) ++metric;
      if (metric == metrics_.size()) {
        of_task.emplace(name, tensor);
      } else {
        own.merge(metrics_[metric]->values_of_rows(tensor));
      }
    }
    own.merge(task_->metrics_of_rows(of_task));  // a value takes the place of one of the task
    return own;
  }

  Prediction predict(torch::nn::Module& model, const samples::Batch& batch) override {
    return task_->predict(model, batch);
  }
  std::map<std::string, std::string, std::less<>> files(const Prediction& all) const override {
    return task_->files(all);
  }
  void leave_files(const Prediction& all, const std::filesystem::path& folder, std::int64_t rank,
                   std::int64_t ranks) const override {
    task_->leave_files(all, folder, rank, ranks);
  }
  std::vector<ShownPicture> pictures() override { return task_->pictures(); }
  std::string show(torch::nn::Module& model, const Place& place) override { return task_->show(model, place); }
  at::Tensor nothing(torch::nn::Module& model, const samples::Batch& batch) override {
    return task_->nothing(model, batch);
  }

 private:
  std::shared_ptr<Task> task_;
  std::vector<std::shared_ptr<Metric>> metrics_;
};

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
                  fmt::format("there is no metric '{}'{}", item.name,
                              did_you_mean(item.name, names, fmt::format("known are {}", fmt::join(names, ", ")))),
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

void check_metrics(const ResolvedRun& config) {
  const auto& parts = config.parts->metrics;
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

std::optional<std::vector<std::string>> value_names(const ResolvedRun& config) {
  const auto task = facts_of_task(config);
  if (!task.measures) return std::nullopt;
  std::vector<std::string> names{"loss"};
  const auto add = [&](const std::vector<std::string>& more) {
    for (const auto& name : more) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  };
  add(*task.measures);
  for (const auto& metric : chosen_metrics(config.metrics, config.parts->metrics)) {
    const auto values = metric.values();
    if (values.empty()) return std::nullopt;
    add(values);
  }
  return names;
}

std::shared_ptr<Task> with_metrics(std::shared_ptr<Task> task, std::vector<std::shared_ptr<Metric>> metrics) {
  if (metrics.empty()) return task;
  return std::make_shared<MeasuredTask>(std::move(task), std::move(metrics));
}

std::vector<std::shared_ptr<Metric>> metrics_of(const ConfigNode& list, const std::vector<MetricPart>& parts) {
  std::vector<std::shared_ptr<Metric>> metrics;
  for (const auto& metric : chosen_metrics(list, parts)) {
    metrics.push_back(metric.part->make(metric.options));
    if (metrics.back()) continue;
    fail(ErrorKind::invalid_argument, "metrics", "the function `make` of {} returned nullptr", metric.part->name);
  }
  return metrics;
}

}  // namespace lockstep::train
