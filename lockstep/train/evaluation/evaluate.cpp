#include <lockstep/train/evaluation/evaluate.h>

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

/// The batches' rows one after the other.
Rows joined(std::map<std::string, std::vector<at::Tensor>> batches) {
  Rows rows;
  for (auto& [name, parts] : batches) rows.emplace(name, torch::cat(parts));
  return rows;
}

// As text, because JSON has no NaN.
double number(const nlohmann::json& text) { return std::strtod(text.get_ref<const std::string&>().c_str(), nullptr); }

}  // namespace

Evaluation evaluate(const Model& model, samples::Batches& batches, const ForwardOptions& options,
                    const OfAllRanks& of_all_ranks) {
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
    add(own, "loss", {forwarded.outcome.loss.item<double>() * forwarded.items, forwarded.items});
    add(own, "samples", {forwarded.samples, 1});
    for (const auto& [name, measure] : forwarded.outcome.sums) {
      add(own, name, {measure.sum.item<double>(), measure.count});
    }
    for (const auto& [name, rows] : forwarded.outcome.rows) own_rows[name].push_back(rows.to(torch::kCPU));
  }
  auto sums = of_all_ranks.sums(own);
  Evaluation evaluation;
  evaluation.loss = sums["loss"].sum / sums["loss"].count;
  evaluation.samples = static_cast<std::int64_t>(sums["samples"].sum);
  sums.erase("samples");
  evaluation.metrics = model.task->metrics(sums);
  for (const auto& [name, value] : model.task->metrics_of_rows(of_all_ranks.rows(joined(std::move(own_rows))))) {
    evaluation.metrics.insert_or_assign(name, value);
  }
  evaluation.shown = model.task->show(*model.module, [&](const at::Tensor& tensor) {
    const auto moved = tensor.to(options.device);
    return options.place ? options.place({}, moved) : moved;
  });
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
