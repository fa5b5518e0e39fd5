// The binary classification task: one logit per sample, cross entropy with a weight of class 1, targets from 0 to 1.
#include <lockstep/base/error.h>
#include <lockstep/models/network.h>
#include <lockstep/models/registry.h>
#include <lockstep/samples/criteo.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/samples/table.h>
#include <lockstep/train/tasks/binary_classification.h>
#include <lockstep/train/tasks/classification.h>
#include <lockstep/train/tasks/out_of_range.h>

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

// Cross entropy of targets outside of that range has no minimum: the loss would decrease without bound.
void require_two_classes(const at::Tensor& classes) {
  const auto own = find_own_values(classes);
  if (!own.defined()) return;
  const auto least = own.min().item<double>(), most = own.max().item<double>();
  if (least >= 0 && most <= 1) return;
  fail(ErrorKind::data, "task.name",
       "binary_classification is for classes 0 and 1, and those of a batch are from {} to {}", least, most);
}

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
    require_two_classes(target);
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

void describe(ConfigFields& fields, BinaryOptions& options) {
  fields.field("positive_weight", options.positive_weight, {.low = 0, .high = 1e6, .low_excluded = true},
               "weight of the loss of samples of class 1");
}

std::shared_ptr<Task> make_binary_classification(const BinaryOptions& options) {
  return std::make_shared<BinaryClassification>(options);
}

}  // namespace lockstep::train
