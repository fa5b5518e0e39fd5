// The evaluation loop: local sums and rows of each batch, their combination over ranks, then metrics of the totals.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/texts.h>
#include <lockstep/train/modes/forward.h>

#include <fmt/format.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace lockstep::train {
namespace {

/// The rows of one name on one rank.
struct RowsSize {
  std::int64_t rows = 0;
  std::int64_t numbers = 0;
  bool is_double = false;
};

std::string sizes_as_text(const Rows& rows) {
  auto json = nlohmann::json::object();
  for (const auto& [name, tensor] : rows) {
    if (tensor.dim() != 2 || (tensor.scalar_type() != torch::kFloat && tensor.scalar_type() != torch::kDouble)) {
      fail(ErrorKind::invalid_argument, "metrics", "rows of a metric are [samples, numbers], float32 or float64");
    }
    json[name] = {tensor.size(0), tensor.size(1), tensor.scalar_type() == torch::kDouble};
  }
  return json.dump();
}

/// By name, the sizes on each rank; ranks without the name have none of its rows.
std::map<std::string, std::vector<RowsSize>> sizes_of_all(const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<RowsSize>> all;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const auto json = nlohmann::json::parse(texts[rank]);
    for (const auto& [name, size] : json.items()) {
      auto& sizes = all[name];
      sizes.resize(texts.size());
      sizes[rank] = {size.at(0), size.at(1), size.at(2)};
    }
  }
  return all;
}

/// The row size and dtype of the ranks with rows.
RowsSize common_size(const std::string& name, const std::vector<RowsSize>& sizes) {
  RowsSize common;
  for (const auto& size : sizes) {
    if (size.numbers == 0) continue;
    if (common.numbers != 0 && (size.numbers != common.numbers || size.is_double != common.is_double)) {
      fail(ErrorKind::mismatch, "metrics", "ranks have rows of {} and of {} numbers, or of two dtypes, for metric {}",
           common.numbers, size.numbers, name);
    }
    common = {std::max(common.rows, size.rows), size.numbers, size.is_double};
  }
  return common;
}

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

Rows gather_rows(const Rows& own, const Group& group) {
  if (group.size() == 1) return own;
  Rows all;
  for (const auto& [name, sizes] : sizes_of_all(gather_texts(sizes_as_text(own), group))) {
    const auto common = common_size(name, sizes);
    // Ranks may have different numbers of samples: all ranks send as many rows as the rank with the most samples.
    auto sent = torch::zeros({common.rows, common.numbers}, common.is_double ? torch::kDouble : torch::kFloat);
    if (const auto found = own.find(name); found != own.end()) {
      sent.narrow(0, 0, found->second.size(0)).copy_(found->second);
    }
    const auto gathered = all_gather(sent, group);
    std::vector<at::Tensor> parts;
    for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
      parts.push_back(gathered.narrow(0, static_cast<std::int64_t>(rank) * common.rows, sizes[rank].rows));
    }
    all.emplace(name, torch::cat(parts));
  }
  return all;
}

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
