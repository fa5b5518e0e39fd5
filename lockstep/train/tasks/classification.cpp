// The classification task, and cross entropy with label smoothing, fused or expanded, which the planner can trace.
#include <lockstep/models/registry.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/samples/table.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/tasks/batch_checks.h>
#include <lockstep/train/tasks/classification.h>

#include <torch/torch.h>

#include <fmt/ranges.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

/// Shares of the classes instead of the number of one, such as those of mixup.
bool are_shares(const at::Tensor& labels) { return labels.is_floating_point(); }

/// [N, classes], floating.
at::Tensor targets_of(const at::Tensor& logits, const at::Tensor& labels) {
  const auto classes = logits.size(1);
  if (are_shares(labels)) {
    if (labels.dim() != 2 || labels.size(1) > classes) {
      fail(ErrorKind::config, "model.num_classes",
           "is {}, and the labels of a batch are shares of classes with the shape [{}]; give at least as many classes",
           classes, fmt::join(labels.sizes(), ", "));
    }
    const auto shares = labels.to(logits.scalar_type());
    const auto missing = classes - labels.size(1);
    return missing == 0 ? shares : torch::constant_pad_nd(shares, {0, missing});
  }
  // Like torch::one_hot, but without its check of the values, because tensors of a planned step have no values.
  return torch::zeros({labels.size(0), classes}, labels.options())
      .scatter_(1, labels.unsqueeze(1), 1)
      .to(logits.scalar_type());
}

at::Tensor smoothed_targets(const at::Tensor& logits, const at::Tensor& labels, double smoothing) {
  return targets_of(logits, labels) * (1.0 - smoothing) + smoothing / static_cast<double>(logits.size(1));
}

at::Tensor expanded(const at::Tensor& logits, const at::Tensor& labels, double smoothing) {
  const auto shifted = logits - logits.amax({-1}, /*keepdim=*/true);
  const auto powers = shifted.exp();
  const auto p = powers / powers.sum(-1, /*keepdim=*/true);
  const auto log_p = p.clamp_min(std::numeric_limits<float>::min()).log();
  return -(smoothed_targets(logits, labels, smoothing) * log_p).sum(-1).mean();
}

constexpr double kMostGamma = 100;

// cross_entropy() does the same, but with smoothing it leaves out ignored labels by a mask: then sizes of tensors
// depend on values, and tensors of a planned step have no values.
at::Tensor fused(const at::Tensor& logits, const at::Tensor& labels, double smoothing) {
  const auto log_p = logits.log_softmax(1);
  if (are_shares(labels)) return -(smoothed_targets(logits, labels, smoothing) * log_p).sum(1).mean();
  const auto of_labels = torch::nll_loss(log_p, labels);
  return smoothing > 0 ? (1.0 - smoothing) * of_labels - smoothing * log_p.mean() : of_labels;
}

struct WeightOptions {
  std::vector<double> class_weights;
};
struct FocalOptions {
  double gamma = 2;
  std::vector<double> class_weights;
};

void describe_class_weights(ConfigFields& fields, std::vector<double>& weights) {
  fields.field("class_weights", weights, at_least(0),
               "factors of the loss of samples, one for each class in order, e.g. [1, 4] where the second is rare; "
               "empty: 1 for all");
}
void describe(ConfigFields& fields, WeightOptions& options) { describe_class_weights(fields, options.class_weights); }
void describe(ConfigFields& fields, FocalOptions& options) {
  fields.field("gamma", options.gamma, between(0, kMostGamma),
               "how much less well-recognized samples count; 0: cross entropy");
  describe_class_weights(fields, options.class_weights);
}

/// The weight of each sample's class. Computed by comparisons with numbers, which global tensors also support.
at::Tensor weights_of(const at::Tensor& labels, const std::vector<double>& weights, at::ScalarType dtype) {
  auto sum = (labels == 0).to(dtype) * weights.front();
  for (std::size_t c = 1; c < weights.size(); ++c) {
    sum = sum + (labels == static_cast<std::int64_t>(c)).to(dtype) * weights[c];
  }
  return sum;
}

void require_weights(const std::vector<double>& weights, std::int64_t classes) {
  if (weights.empty() || std::ssize(weights) == classes) return;
  fail(ErrorKind::config, "loss.class_weights", "has {} numbers, and the model {} classes (model.num_classes)",
       weights.size(), classes);
}

/// The loss of each sample. The means are over the samples, not over their weights: so they are the same on any number
/// of ranks.
at::Tensor focal_losses(const at::Tensor& log_p, const at::Tensor& labels, double smoothing,
                        const FocalOptions& options) {
  const auto of_labels = torch::nll_loss(log_p, labels, {}, at::Reduction::None);
  auto losses = options.gamma > 0 ? of_labels * (1.0 - (-of_labels).exp()).clamp_min(0).pow(options.gamma) : of_labels;
  if (smoothing > 0) losses = (1.0 - smoothing) * losses - smoothing * log_p.mean(1);
  if (options.class_weights.empty()) return losses;
  return losses * weights_of(labels, options.class_weights, losses.scalar_type());
}

/// The same for shares of classes: the sum of the losses of all labels by their shares.
at::Tensor mixed_focal_losses(const at::Tensor& log_p, const at::Tensor& shares, double smoothing,
                              const FocalOptions& options) {
  auto losses = options.gamma > 0 ? -log_p * (1.0 - log_p.exp()).clamp_min(0).pow(options.gamma) : -log_p;
  if (smoothing > 0) losses = (1.0 - smoothing) * losses - smoothing * log_p.mean(1, /*keepdim=*/true);
  losses = losses * shares;
  const auto& weights = options.class_weights;
  if (weights.empty()) return losses.sum(1);
  auto sum = losses.select(1, 0) * weights.front();
  for (std::size_t c = 1; c < weights.size(); ++c) {
    sum = sum + losses.select(1, static_cast<std::int64_t>(c)) * weights[c];
  }
  return sum;
}

at::Tensor focal(const at::Tensor& logits, const at::Tensor& labels, double smoothing, const FocalOptions& options) {
  const auto wide = logits.scalar_type() == torch::kDouble ? logits : logits.to(torch::kFloat);
  const auto log_p = wide.log_softmax(1);
  require_weights(options.class_weights, logits.size(1));
  const auto losses = are_shares(labels) ? mixed_focal_losses(log_p, targets_of(wide, labels), smoothing, options)
                                         : focal_losses(log_p, labels, smoothing, options);
  return losses.mean();
}

class Classification final : public Task {
 public:
  explicit Classification(ClassificationLoss loss) : loss_(std::move(loss)) {}

  Outcome run(torch::nn::Module& model, const samples::Batch& batch, bool measures) override {
    const auto& labels = batch[samples::kLabels];
    const auto logits = logits_of(model, batch);
    Outcome outcome{.loss = loss_of(logits, labels, batch)};
    outcome.output = logits;
    outcome.target = are_shares(labels) && measures ? labels.argmax(1) : labels;
    if (measures) outcome.sums.emplace("accuracy", sum_of(logits.argmax(1) == outcome.target));
    return outcome;
  }

  Prediction predict(torch::nn::Module& model, const samples::Batch& batch) override {
    const auto logits = logits_of(model, batch).to(torch::kFloat);
    return {.tensors = {{"class", logits.argmax(1)}, {"probability", logits.softmax(1).amax({1})}, {"logits", logits}}};
  }

  at::Tensor nothing(torch::nn::Module& model, const samples::Batch& batch) override {
    return models::classify(model, input_of(batch)).sum();
  }

 private:
  static at::Tensor logits_of(torch::nn::Module& model, const samples::Batch& batch) {
    try {
      return models::classify(model, input_of(batch));
    } catch (const c10::Error&) {
      require_floating_pictures(batch);
      throw;
    }
  }

  at::Tensor loss_of(const at::Tensor& logits, const at::Tensor& labels, const samples::Batch& batch) const {
    try {
      return loss_(logits, labels);
    } catch (const c10::Error&) {
      if (!are_shares(labels)) require_in_range(batch, samples::kLabels, logits.size(1), "model.num_classes");
      throw;
    }
  }

  ClassificationLoss loss_;
};

ClassificationLoss with_smoothing(LossKind kind, double smoothing) {
  return [kind, smoothing](const at::Tensor& logits, const at::Tensor& labels) {
    return classification_loss(kind, logits, labels, smoothing);
  };
}

ClassificationLoss focal_loss(const LossConfig& config, const FocalOptions& options) {
  return [smoothing = config.label_smoothing, options](const at::Tensor& logits, const at::Tensor& labels) {
    return focal(logits, labels, smoothing, options);
  };
}

ClassificationLoss cross_entropy(const LossConfig& config) {
  const auto& weights = config.options.as<WeightOptions>().class_weights;
  if (weights.empty()) return with_smoothing(LossKind::cross_entropy, config.label_smoothing);
  return focal_loss(config, {.gamma = 0, .class_weights = weights});
}

}  // namespace

const at::Tensor& input_of(const samples::Batch& batch) {
  return batch[batch.tensors.contains(samples::kFeatures) ? samples::kFeatures : samples::kPictures];
}

at::Tensor classification_loss(LossKind kind, const at::Tensor& logits, const at::Tensor& labels, double smoothing) {
  const auto wide = logits.scalar_type() == torch::kDouble ? logits : logits.to(torch::kFloat);
  if (kind == LossKind::cross_entropy_expand) return expanded(wide, labels, smoothing);
  return fused(wide, labels, smoothing);
}

std::vector<LossPart> classification_losses() {
  return {
      {.name = "cross_entropy",
       .doc = "cross entropy of logits, by libtorch's fused kernels",
       .options = PartOptions::of(WeightOptions{}),
       .make = cross_entropy},
      {.name = "focal",
       .doc = "cross entropy in which well-recognized samples count less (Lin et al., 2017)",
       .options = PartOptions::of(FocalOptions{}),
       .make = [](const LossConfig& c) { return focal_loss(c, c.options.as<FocalOptions>()); }},
      {.name = "cross_entropy_expand",
       .doc = "the same value, built of primitive operations",
       .make = [](const LossConfig& c) { return with_smoothing(LossKind::cross_entropy_expand, c.label_smoothing); }}};
}

std::shared_ptr<Task> classification(const ResolvedRun& run) {
  const auto& part = part_named(run.parts->losses, run.loss.name, "loss.name");
  LossConfig own = run.loss;
  own.options = options_of(run.loss, part);
  return std::make_shared<Classification>(part.make(own));
}

}  // namespace lockstep::train
