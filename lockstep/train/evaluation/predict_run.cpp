// Prediction over all ranks: batches on each, a JSON summary of fields, then tensors of all samples by all_reduce.
#include <lockstep/base/base64.h>
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/texts.h>
#include <lockstep/data/files/counted_remarks.h>
#include <lockstep/train/checkpoint/learned_table.h>
#include <lockstep/train/evaluation/evaluate_run.h>
#include <lockstep/train/evaluation/measured_model.h>

#include <torch/torch.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace lockstep::train {
namespace {

constexpr const char* kPredictions = "predict";

/// Rows of predictions, and their samples.
struct PredictedRows {
  std::vector<std::int64_t> indices;
  std::map<std::string, std::vector<at::Tensor>, std::less<>> tensors;  ///< batch by batch
  std::map<std::string, std::vector<std::string>, std::less<>> texts;
  std::map<std::int64_t, std::string> left_out;

  void add(const std::vector<std::int64_t>& samples, Prediction prediction) {
    const auto require_rows = [&](const std::string& name, std::int64_t rows) {
      if (rows == static_cast<std::int64_t>(samples.size())) return;
      fail(ErrorKind::data, kPredictions, "the task predicts {} rows of '{}' for {} samples; give one for each", rows,
           name, samples.size());
    };
    indices.insert(indices.end(), samples.begin(), samples.end());
    for (auto& [name, tensor] : prediction.tensors) {
      require_rows(name, tensor.dim() == 0 ? 0 : tensor.size(0));
      tensors[name].push_back(tensor.detach().to(torch::kCPU));
    }
    for (auto& [name, lines] : prediction.texts) {
      require_rows(name, static_cast<std::int64_t>(lines.size()));
      auto& all = texts[name];
      std::move(lines.begin(), lines.end(), std::back_inserter(all));
    }
  }
};

/// The samples of each batch on each share. In the global view, they are the rows of one batch, ordered by share.
using BatchIndices = std::vector<std::vector<std::int64_t>>;

std::vector<BatchIndices> of_all_shares(const BatchIndices& own, const DataShare& share, const Group& group) {
  std::vector<BatchIndices> by_share(static_cast<std::size_t>(share.count));
  for (const auto& text : gather_texts(nlohmann::json{share.index, own}.dump(), group)) {
    const auto json = nlohmann::json::parse(text);
    by_share.at(json[0].get<std::size_t>()) = json[1].get<BatchIndices>();
  }
  return by_share;
}

PredictedRows predict_all(const MeasuredModel& measured, const RankData& data, const Group& group) {
  PredictedRows rows;
  const auto batches = data.batches(measured.device());
  const bool all = measured.run().predicts_all();
  BatchIndices own;
  std::vector<Prediction> predictions;
  batches->start(0, 0);
  while (auto batch = batches->next()) {
    rows.left_out.merge(batch->left_out_because);
    if (batch->count == 0 && !all) continue;
    own.push_back(batch->indices);
    predictions.push_back(measured.run().predict(std::move(*batch)));
  }
  const auto by_share = all ? of_all_shares(own, measured.share(), group) : std::vector<BatchIndices>{own};
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    std::vector<std::int64_t> indices;
    for (const auto& share : by_share) indices.insert(indices.end(), share.at(i).begin(), share.at(i).end());
    rows.add(indices, std::move(predictions[i]));
  }
  return rows;
}

/// The summary of one rank, without the numbers: {"fields": {name: [dtype, size...]}, "texts": {name: [[index,
/// text]...]}, "left_out": [[index, text]...]}.
std::string summary_of(const PredictedRows& rows) {
  auto json = nlohmann::json::object();
  for (const auto& [name, tensors] : rows.tensors) {
    auto shape = tensors.front().sizes().vec();
    shape.front() = static_cast<std::int64_t>(tensors.front().scalar_type());
    json["fields"][name] = shape;
  }
  for (const auto& [name, texts] : rows.texts) {
    auto& list = json["texts"][name];
    for (std::size_t i = 0; i < texts.size(); ++i) list.push_back({rows.indices[i], to_base64(texts[i])});
  }
  for (const auto& [index, reason] : rows.left_out) json["left_out"].push_back({index, to_base64(reason)});
  return json.dump();
}

using Fields = std::map<std::string, std::vector<std::int64_t>>;

/// The fields, which are the same on all ranks with predictions.
Fields fields_of(const std::vector<nlohmann::json>& summaries) {
  Fields fields;
  for (const auto& summary : summaries) {
    if (!summary.contains("fields")) continue;
    const auto here = summary["fields"].get<Fields>();
    if (!fields.empty() && here != fields) {
      fail(ErrorKind::data, kPredictions, "ranks have predictions of different fields, dtypes or shapes");
    }
    fields = here;
  }
  return fields;
}

/// Each row is on one rank, or on all ranks with `has_all`; other ranks add zeros.
at::Tensor gathered(const PredictedRows& rows, const std::string& name, const std::vector<std::int64_t>& field,
                    std::int64_t samples, const Group& group, bool has_all) {
  auto sizes = field;
  const auto dtype = static_cast<at::ScalarType>(field.front());
  sizes.front() = samples;
  auto out = torch::zeros(sizes, dtype);
  if (const auto own = rows.tensors.find(name); own != rows.tensors.end()) {
    for (const auto& each : own->second) {
      if (each.scalar_type() == dtype && each.sizes().slice(1) == own->second.front().sizes().slice(1)) continue;
      fail(ErrorKind::data, kPredictions, "the task predicts '{}' with different dtypes or shapes for two batches",
           name);
    }
    out.index_copy_(0, torch::tensor(rows.indices), torch::cat(own->second));
  }
  if (!has_all) all_reduce(out, group);
  return out;
}

std::string text_in(const nlohmann::json& base64) { return from_base64(base64.get<std::string>()).value_or(""); }

/// Removes the samples that were left out, because the task has no predictions for them.
Prediction of_used(const Prediction& all, std::int64_t samples) {
  if (all.left_out.empty()) return all;
  std::vector<std::int64_t> used;
  for (std::int64_t i = 0; i < samples; ++i) {
    if (!all.left_out.contains(i)) used.push_back(i);
  }
  Prediction rest;
  for (const auto& [name, tensor] : all.tensors)
    rest.tensors.emplace(name, tensor.index_select(0, torch::tensor(used)));
  for (const auto& [name, texts] : all.texts) {
    auto& some = rest.texts[name];
    for (const auto i : used) some.push_back(texts[static_cast<std::size_t>(i)]);
  }
  return rest;
}

}  // namespace

Prediction predict_run(const RunConfig& config, const Program& program, const Group& group, const NamedTensors* weights,
                       const std::shared_ptr<const samples::Dataset>& dataset, const std::filesystem::path& folder) {
  const data::ReportsOnce once(group.rank() != 0);
  const MeasuredModel measured(without_targets(config), program, group, weights);
  const auto data = measured.data(dataset);
  if (!data) fail(ErrorKind::config, "data", "there is nothing to predict for: the data has no test split");
  const torch::NoGradGuard no_grad;
  measured.module().eval();
  const auto rows = predict_all(measured, *data, group);
  const auto samples = data->dataset->size();
  std::vector<nlohmann::json> summaries;
  for (const auto& text : gather_texts(summary_of(rows), group)) summaries.push_back(nlohmann::json::parse(text));
  Prediction all;
  for (const auto& [name, field] : fields_of(summaries)) {
    all.tensors.emplace(name, gathered(rows, name, field, samples, group, measured.run().predicts_all()));
  }
  for (const auto& summary : summaries) {
    if (summary.contains("left_out")) {
      for (const auto& pair : summary["left_out"]) {
        all.left_out.emplace(pair[0].get<std::int64_t>(), text_in(pair[1]));
      }
    }
    if (!summary.contains("texts")) continue;
    for (const auto& [name, list] : summary["texts"].items()) {
      auto& texts = all.texts[name];
      texts.resize(static_cast<std::size_t>(samples));
      for (const auto& pair : list) {
        texts.at(pair[0].get<std::size_t>()) = text_in(pair[1]);
      }
    }
  }
  for (std::int64_t i = 0; i < samples; ++i) all.known_as.push_back(data->dataset->known_as(i));
  all.classes = data->dataset->classes();
  const auto used = of_used(all, samples);
  all.files = measured.task().files(used);
  if (!folder.empty()) measured.task().leave_files(used, folder, group.rank(), group.size());
  return all;
}

}  // namespace lockstep::train
