// Evaluation and prediction outside of training: the model with its checked configuration, plan, device, weights and
// parallel run; predictions as batches on each rank, a JSON summary of fields, then tensors of all samples by
// all_reduce.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/texts.h>
#include <lockstep/data/files/reports.h>
#include <lockstep/state/saved_checkpoint.h>
#include <lockstep/train/checkpoint/run_folder.h>
#include <lockstep/train/checkpoint/run_state.h>
#include <lockstep/train/evaluation/evaluate_run.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/modes/parallel_run.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/output/console.h>
#include <lockstep/train/resources/run_data.h>
#include <lockstep/train/resources/runtime.h>
#include <lockstep/train/resources/work_dir.h>
#include <lockstep/train/run_group.h>
#include <lockstep/train/served/served_tables.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace lockstep::train {
namespace {

ResolvedRun checked(ResolvedRun config, bool has_weights) {
  if (is_served_mode(config.parallel)) {
    if (!has_weights && !config.model.weights) {
      fail(ErrorKind::config, "model.weights",
           "is not given, and the tables of a run with parameter servers ended with it; give its model.safetensors "
           "(lockstep eval --weights FILE)");
    }
    config.parallel.mode = "data_parallel";  // without servers
  }
  config = without_training(std::move(config));
  check_run_config(config);
  return config;
}

/// Adds the statistics of the run that the weights belong to, if the data is a table. Rank 0 reads them.
ResolvedRun as_learned(ResolvedRun config, const Group& group, bool has_weights) {
  if (!has_table(config)) return config;
  const auto& resume = config.checkpoint.resume;
  const bool is_named = resume != "auto" && resume != "none";
  const auto place = has_weights ? (is_named ? resume : config.system.work_dir) : config.model.weights.value_or("");
  return with_table(std::move(config), share_text(group.rank() == 0 ? table_of_run(place) : "", group));
}

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

/// A model that is measured and not trained: it is made, gets its weights, and is distributed over the ranks as in
/// training.
class MeasuredModel {
 public:
  /// A collective. Errors of resolved_for(), complete_program(), check_run_config() and the planner.
  MeasuredModel(const ResolvedRun& given, const Program& parts, const Group& group, const NamedTensors* weights)
      : config_(as_learned(checked(resolved_for(parts, given), weights != nullptr), group, weights != nullptr)),
        program_(complete_program(with_data_of(parts, config_), config_)),
        console_(has_console(config_, group.world()), ProgressStyle::off) {
    apply_runtime(config_.system);
    config_ = planned(config_, program_, group, console_);
    share_ = data_share(config_, group);
    device_ = choose_device(config_, group);
    const auto options = forward_options(config_, device_);
    model_ = make_model(config_, program_, options.device);
    const auto remark_on = [&](std::string_view line) {
      write_log(LogLevel::info, line);
      // Standard output is for results, which other programs read.
      if (has_console(config_, group.world())) fmt::print(stderr, "{}\n", line);
    };
    if (weights != nullptr) {
      load_module_state(*model_.module, *weights);
    } else if (config_.model.weights) {
      for (const auto& remark : start_from_weights(model_, config_.model, WeightsFor::measuring)) remark_on(remark);
      if (has_table(config_) && !reads_as_learned(config_)) {
        remark_on(fmt::format(
            "the folder of the weights has no {}: means, deviations and words are those of data.train as it "
            "is now",
            kTableFile));
      }
    }
    run_ = make_parallel_run(config_, model_, group, options);
  }

  /// This rank's share of the test split, or of `dataset` if that is given; nullopt if there is no data.
  std::optional<RankData> data(std::shared_ptr<const samples::Dataset> dataset = nullptr) const {
    if (!dataset) {
      auto data = load_eval_data(config_, program_, share_.index, share_.count);
      // Weights given as tensors come from a model in this process.
      if (data && config_.model.weights) {
        require_same_classes(classes_of_run(*config_.model.weights), data->dataset->classes());
      }
      return data;
    }
    auto program = program_;
    program.data = DataSource(nullptr, std::move(dataset));
    return load_eval_data(config_, program, share_.index, share_.count);
  }

  const c10::Device& device() const { return device_; }

  /// The number of this share, and the number of shares.
  DataShare share() const { return share_; }
  torch::nn::Module& module() const { return *model_.module; }
  ParallelRun& run() const { return *run_; }
  const Task& task() const { return *model_.task; }
  void tell(std::string_view line) const { train::tell(console_, line); }

 private:
  ResolvedRun config_;
  Program program_;
  mutable Console console_;
  DataShare share_;
  c10::Device device_{c10::DeviceType::CPU};
  Model model_;
  std::unique_ptr<ParallelRun> run_;
};

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

Evaluation evaluate_run(const ResolvedRun& given, const Program& parts, const Group& group,
                        const NamedTensors* weights) {
  const data::ReportsOnce once(group.rank() != 0);
  const MeasuredModel measured(given, parts, group, weights);
  const auto data = measured.data();
  if (!data) fail(ErrorKind::config, "data", "there is nothing to evaluate on: the data has no split for it");
  const auto batches = data->batches(measured.device());
  auto evaluation = measured.run().evaluate(*batches);
  if (weights == nullptr && given.model.weights && given.model.weights_average) evaluation.weights = kAverageWords;
  measured.tell(
      fmt::format("{} ({} samples in {:.1f} s)", values_text(evaluation), evaluation.samples, evaluation.seconds));
  if (!evaluation.shown.empty()) measured.tell(evaluation.shown);
  barrier(group);
  return evaluation;
}

NamedTensors checkpoint_weights(const ResolvedRun& config, const Group& group) {
  auto point = find_resume_point(config, group);
  if (!point) {
    fail(ErrorKind::config, "checkpoint.resume", "there is no checkpoint in {}; train first, or give model.weights",
         checkpoint_folder_of(config).string());
  }
  return point->tensors.read_part("model");
}

Prediction predict_run(const ResolvedRun& config, const Program& program, const Group& group,
                       const NamedTensors* weights, const std::shared_ptr<const samples::Dataset>& dataset,
                       const std::filesystem::path& folder) {
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
