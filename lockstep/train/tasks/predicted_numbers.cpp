// The tasks whose models predict a number of a sample: regression with losses mse, l1, smooth_l1 and bce, and sums of
// absolute and squared errors; and binary classification by one logit, with a weight of class 1.
#include <lockstep/base/error.h>
#include <lockstep/models/network.h>
#include <lockstep/models/registry.h>
#include <lockstep/samples/criteo.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/samples/table.h>
#include <lockstep/train/tasks/batch_checks.h>
#include <lockstep/train/tasks/classification.h>

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <vector>

namespace lockstep::train {
namespace {

at::Tensor regression_loss(const std::string& name, const at::Tensor& values, const at::Tensor& targets) {
  if (name == "l1") return torch::l1_loss(values, targets);
  if (name == "bce") return torch::binary_cross_entropy_with_logits(values, targets);
  if (name == "smooth_l1") return torch::smooth_l1_loss(values, targets);
  return torch::mse_loss(values, targets);
}

const at::Tensor& targets_of(const samples::Batch& batch) {
  if (const auto found = batch.tensors.find(samples::kTargets); found != batch.tensors.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : batch.tensors) names.push_back(name);
  fail(
      ErrorKind::config, "task.name",
      "regression learns numbers, the field '{}' of samples, and those of data.name have {}; take data with numbers to "
      "predict, such as data.name=csv with data.targets, or remove task.name to classify",
      samples::kTargets, fmt::join(names, ", "));
}

/// Targets that a data set requires to scale, such as csv with standardize_targets: the model learns and predicts
/// scaled values.
at::Tensor scaled(const at::Tensor& targets, const samples::Batch& batch) {
  const auto mean = batch.tensors.find(samples::kTargetMean);
  return mean == batch.tensors.end() ? targets : (targets - mean->second) / batch[samples::kTargetDeviation];
}
at::Tensor in_own_unit(const at::Tensor& values, const samples::Batch& batch) {
  const auto mean = batch.tensors.find(samples::kTargetMean);
  return mean == batch.tensors.end() ? values : values * batch[samples::kTargetDeviation] + mean->second;
}

struct RegressionOptions {
  std::string loss = "mse";  ///< mse, l1, smooth_l1 or bce
};
void describe(ConfigFields& fields, RegressionOptions& options) {
  fields.field("loss", options.loss, one_of({"mse", "l1", "smooth_l1", "bce"}),
               "a mean over all targets; bce: binary cross entropy of values as logits, for targets from 0 to 1");
}

/// For models of models/registry.h, the input `features` or `pictures`, and `targets`, floats [N, T] of any T. Loss:
/// the mean over all targets. Metrics: `mae`, the mean absolute error, and `rmse`, the root of the mean squared error,
/// over all targets of all ranks. Predicts `values` [N, T]. Where samples have `target_mean` and `target_deviation`
/// (samples/table.h), the model outputs standardized numbers, and the loss uses these; metrics and predictions have the
/// unit of the targets.
class Regression final : public Task {
 public:
  explicit Regression(RegressionOptions options) : options_(std::move(options)) {}

  Outcome run(torch::nn::Module& model, const samples::Batch& batch, bool measures) override {
    const auto& targets = targets_of(batch);
    const auto values = models::classify(model, input_of(batch)).to(torch::kFloat);
    if (values.sizes() != targets.sizes()) {
      fail(ErrorKind::config, "model.num_classes",
           "the model makes [{}] of a batch whose targets are [{}]; give the number of targets, {}",
           fmt::join(values.sizes(), ", "), fmt::join(targets.sizes(), ", "), targets.dim() > 1 ? targets.size(1) : 1);
    }
    const auto wanted = scaled(targets, batch);
    if (options_.loss == "bce") {
      require_shares(wanted, "task.loss", "bce is for targets from 0 to 1",
                     "; use mse, l1 or smooth_l1, or scale the targets to 0..1 in the file");
    }
    Outcome outcome{.loss = regression_loss(options_.loss, values, wanted)};
    outcome.output = in_own_unit(values, batch);
    outcome.target = targets;
    if (measures) {
      const auto errors = outcome.output - targets;
      outcome.sums.emplace("mae", sum_of(errors.abs()));
      outcome.sums.emplace("rmse", sum_of(errors.square()));
    }
    return outcome;
  }

  Values metrics(const Sums& sums) const override {
    auto values = Task::metrics(sums);
    if (const auto rmse = values.find("rmse"); rmse != values.end()) rmse->second = std::sqrt(rmse->second);
    return values;
  }

  Prediction predict(torch::nn::Module& model, const samples::Batch& batch) override {
    return {.tensors = {{"values", in_own_unit(models::classify(model, input_of(batch)), batch)}}};
  }

  at::Tensor nothing(torch::nn::Module& model, const samples::Batch& batch) override {
    return models::classify(model, input_of(batch)).sum();
  }

 private:
  RegressionOptions options_;
};

at::Tensor logits_of(torch::nn::Module& model, const samples::Batch& batch) {
  auto* fields = dynamic_cast<models::FieldNetwork*>(&model);
  if (fields == nullptr) return models::classify(model, input_of(batch)).to(torch::kFloat);
  try {
    return fields->forward(batch[samples::kIds], batch[samples::kWeights]).to(torch::kFloat);
  } catch (const c10::Error&) {
    require_in_range(batch, samples::kIds, fields->rows(), "model.rows");
    throw;
  }
}

at::Tensor classes_of(const samples::Batch& batch) {
  const auto* field = batch.tensors.contains(samples::kTargets) ? samples::kTargets : samples::kLabels;
  return batch[field].to(torch::kFloat);
}

struct BinaryOptions {
  double positive_weight = 1;  ///< of the loss of samples of class 1
};
void describe(ConfigFields& fields, BinaryOptions& options) {
  fields.field("positive_weight", options.positive_weight, {.low = 0, .high = 1e6, .low_excluded = true},
               "weight of the loss of samples of class 1");
}

/// For a model with one output per sample, its logit: a models::FieldNetwork of `ids` and `weights`, or a
/// models::Network of `features` or `pictures`. The class, 0 or 1, is `targets`, floating, or `labels`, int64, with one
/// number per sample. Loss: the mean of the binary cross entropy. Metric: `accuracy`, the share of samples whose class
/// is more probable than the other. Predicts `probability` of class 1 [N].
class BinaryClassification final : public Task {
 public:
  explicit BinaryClassification(const BinaryOptions& options) : options_(options) {}

  Outcome run(torch::nn::Module& model, const samples::Batch& batch, bool measures) override {
    const auto logits = logits_of(model, batch);
    const auto classes = classes_of(batch);
    if (logits.numel() != classes.numel()) {
      fail(
          ErrorKind::config, "model.num_classes",
          "binary_classification takes one logit a sample, and the model makes [{}] of a batch whose classes are [{}]; "
          "give model.num_classes=1",
          fmt::join(logits.sizes(), ", "), fmt::join(classes.sizes(), ", "));
    }
    const auto target = classes.reshape(logits.sizes());
    require_shares(target, "task.name", "binary_classification is for classes 0 and 1", "");
    const auto weight =
        options_.positive_weight == 1 ? at::Tensor() : torch::full({1}, options_.positive_weight, logits.options());
    Outcome outcome{.loss = torch::binary_cross_entropy_with_logits(logits, target, {}, weight)};
    outcome.output = logits;
    outcome.target = target;
    if (measures) outcome.sums.emplace("accuracy", sum_of((logits > 0) == (target > 0.5)));
    return outcome;
  }

  Prediction predict(torch::nn::Module& model, const samples::Batch& batch) override {
    return {.tensors = {{"probability", logits_of(model, batch).sigmoid().reshape({-1})}}};
  }

  at::Tensor nothing(torch::nn::Module& model, const samples::Batch& batch) override {
    return logits_of(model, batch).sum();
  }

 private:
  BinaryOptions options_;
};

}  // namespace

void add_predicted_numbers(Parts& parts) {
  parts.tasks.push_back(
      {.name = "regression",
       .doc = "numbers; mean absolute error and root of the mean squared error",
       .options = PartOptions::of(RegressionOptions{}),
       .make = [](const PartOptions& options) { return std::make_shared<Regression>(options.as<RegressionOptions>()); },
       .measures = {{"mae", "rmse"}},
       .targets = Targets::numbers});
  parts.tasks.push_back({.name = "binary_classification",
                         .doc = "two classes by one logit; accuracy",
                         .options = PartOptions::of(BinaryOptions{}),
                         .make =
                             [](const PartOptions& options) {
                               return std::make_shared<BinaryClassification>(options.as<BinaryOptions>());
                             },
                         .measures = {{"accuracy"}}});
}

}  // namespace lockstep::train
