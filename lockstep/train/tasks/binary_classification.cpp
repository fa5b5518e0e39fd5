// The binary classification task: one logit per sample, cross entropy with a weight of class 1, targets from 0 to 1.
#include <lockstep/base/error.h>
#include <lockstep/models/network.h>
#include <lockstep/models/registry.h>
#include <lockstep/samples/criteo.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/samples/table.h>
#include <lockstep/train/tasks/batch_checks.h>
#include <lockstep/train/tasks/classification.h>

#include <torch/torch.h>

#include <fmt/ranges.h>

namespace lockstep::train {
namespace {

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

void add_binary_classification(Parts& parts) {
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
