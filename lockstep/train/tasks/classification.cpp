#include <lockstep/models/registry.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/train/tasks/classification.h>

#include <torch/torch.h>

#include <limits>

namespace lockstep::train {
namespace {

at::Tensor smoothed_targets(const at::Tensor& logits, const at::Tensor& labels, double smoothing) {
  const auto classes = logits.size(1);
  // What torch::one_hot does after it looked at the numbers, which a step that is planned does not have.
  const auto one_hot = torch::zeros({labels.size(0), classes}, labels.options())
                           .scatter_(1, labels.unsqueeze(1), 1)
                           .to(logits.scalar_type());
  return one_hot * (1.0 - smoothing) + smoothing / static_cast<double>(classes);
}

at::Tensor expanded(const at::Tensor& logits, const at::Tensor& labels, double smoothing) {
  const auto shifted = logits - logits.amax({-1}, /*keepdim=*/true);
  const auto powers = shifted.exp();
  const auto p = powers / powers.sum(-1, /*keepdim=*/true);
  const auto log_p = p.clamp_min(std::numeric_limits<float>::min()).log();
  return -(smoothed_targets(logits, labels, smoothing) * log_p).sum(-1).mean();
}

// cross_entropy() does the same, but leaves out ignored labels by a mask where it smooths: then the sizes of what it
// computes depend on numbers, and a step that is planned has none.
at::Tensor fused(const at::Tensor& logits, const at::Tensor& labels, double smoothing) {
  const auto log_p = logits.log_softmax(1);
  const auto of_labels = torch::nll_loss(log_p, labels);
  return smoothing > 0 ? (1.0 - smoothing) * of_labels - smoothing * log_p.mean() : of_labels;
}

class Classification final : public Task {
 public:
  Classification(LossKind kind, double smoothing) : kind_(kind), smoothing_(smoothing) {}

  Outcome run(torch::nn::Module& model, const samples::Batch& batch, bool measures) override {
    const auto& labels = batch[samples::kLabels];
    const auto logits = models::classify(model, batch[samples::kPictures]);
    Outcome outcome{.loss = classification_loss(kind_, logits, labels, smoothing_)};
    if (measures) outcome.sums.emplace("accuracy", sum_of(logits.argmax(1) == labels));
    return outcome;
  }

  samples::Tensors predict(torch::nn::Module& model, const samples::Batch& batch) override {
    const auto logits = models::classify(model, batch[samples::kPictures]);
    return {{"logits", logits}, {"classes", logits.argmax(1)}};
  }

  at::Tensor nothing(torch::nn::Module& model, const samples::Batch& batch) override {
    return models::classify(model, batch[samples::kPictures]).sum();
  }

 private:
  LossKind kind_;
  double smoothing_;
};

}  // namespace

at::Tensor classification_loss(LossKind kind, const at::Tensor& logits, const at::Tensor& labels, double smoothing) {
  const auto wide = logits.scalar_type() == torch::kDouble ? logits : logits.to(torch::kFloat);
  if (kind == LossKind::cross_entropy_expand) return expanded(wide, labels, smoothing);
  return fused(wide, labels, smoothing);
}

std::shared_ptr<Task> classification(const LossConfig& config) {
  const auto kind = config.name == "cross_entropy_expand" ? LossKind::cross_entropy_expand : LossKind::cross_entropy;
  return std::make_shared<Classification>(kind, config.label_smoothing);
}

}  // namespace lockstep::train
