// The evaluation loop: local sums and rows of each batch, their combination over ranks, then metrics of the totals.
#include <lockstep/train/modes/evaluate.h>

#include <lockstep/base/error.h>

#include <torch/torch.h>

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace lockstep::train {
namespace {

void add(Sums& sums, const std::string& name, const Sum& more) {
  auto& sum = sums[name];
  sum.sum += more.sum;
  sum.count += more.count;
}

/// The rows of all batches, concatenated.
Rows joined(std::map<std::string, std::vector<at::Tensor>> batches) {
  Rows rows;
  for (auto& [name, parts] : batches) rows.emplace(name, torch::cat(parts));
  return rows;
}

/// The name of a sum of the loss (Task::loss_sums).
std::string sum_name(std::int64_t number) { return fmt::format("loss sum {}", number); }

void add_loss(Sums& sums, const Forwarded& forwarded) {
  const auto& parts = forwarded.outcome.loss_sums;
  if (!parts.defined()) {
    add(sums, "loss", {forwarded.outcome.loss.item<double>() * forwarded.items, forwarded.items});
    return;
  }
  for (std::int64_t i = 0; i < parts.size(0); ++i) add(sums, sum_name(i), {parts[i].item<double>(), 1});
}

/// Removes and returns the sums of the loss.
double take_loss(Sums& sums, const Task& task) {
  const auto count = task.loss_sums();
  if (count == 0 || !sums.contains(sum_name(0))) return sums["loss"].sum / sums["loss"].count;
  auto parts = torch::zeros({count}, torch::kDouble);
  for (std::int64_t i = 0; i < count; ++i) {
    parts[i] = sums[sum_name(i)].sum;
    sums.erase(sum_name(i));
  }
  return task.loss_of(parts).item<double>();
}

// The values are text, because JSON has no NaN.
double number(const nlohmann::json& text) { return std::strtod(text.get_ref<const std::string&>().c_str(), nullptr); }

}  // namespace

Evaluation evaluate(const Model& model, samples::Batches& batches, const ForwardOptions& options,
                    const OfAllRanks& of_all_ranks, EvaluationPurpose purpose) {
  const auto start = std::chrono::steady_clock::now();
  const torch::NoGradGuard no_grad;
  model.module->eval();
  Sums own;
  std::map<std::string, std::vector<at::Tensor>> own_rows;
  batches.start(0, 0);
  while (auto batch = batches.next()) {
    // Where batches are parts of one tensor, an empty part counts as well.
    if (batch->count == 0 && !options.place) continue;
    const auto forwarded = forward(model, std::move(*batch), options, /*measures=*/true);
    add_loss(own, forwarded);
    add(own, "samples", {forwarded.samples, 1});
    for (const auto& [name, measure] : forwarded.outcome.sums) {
      add(own, name, {measure.sum.item<double>(), measure.count});
    }
    for (const auto& [name, rows] : forwarded.outcome.rows) own_rows[name].push_back(rows.to(torch::kCPU));
  }
  for (const auto& [name, sum] : model.task->late_sums()) add(own, name, sum);
  auto sums = of_all_ranks.sums(own);
  Evaluation evaluation;
  evaluation.loss = take_loss(sums, *model.task);
  evaluation.samples = static_cast<std::int64_t>(sums["samples"].sum);
  sums.erase("samples");
  const auto rows = of_all_ranks.rows(joined(std::move(own_rows)));
  try {
    evaluation.metrics = model.task->metrics(sums);
    for (const auto& [name, value] : model.task->metrics_of_rows(rows)) {
      evaluation.metrics.insert_or_assign(name, value);
    }
  } catch (const Error& error) {
    // One batch may have too little data for a metric.
    if (purpose != EvaluationPurpose::trial || error.kind() != ErrorKind::data) throw;
  }
  if (purpose == EvaluationPurpose::result) {
    evaluation.shown = model.task->show(*model.module, [&](const at::Tensor& tensor) {
      const auto moved = tensor.to(options.device);
      return options.place ? options.place({}, moved) : moved;
    });
  }
  model.module->train();
  evaluation.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return evaluation;
}

std::string to_text(const Sums& sums) {
  auto json = nlohmann::json::object();
  for (const auto& [name, sum] : sums) json[name] = {fmt::format("{}", sum.sum), fmt::format("{}", sum.count)};
  return json.dump();
}

Sums add_up(const std::vector<std::string>& texts) {
  Sums all;
  for (const auto& text : texts) {
    const auto json = nlohmann::json::parse(text);
    for (const auto& [name, sum] : json.items()) add(all, name, {number(sum.at(0)), number(sum.at(1))});
  }
  return all;
}

}  // namespace lockstep::train
