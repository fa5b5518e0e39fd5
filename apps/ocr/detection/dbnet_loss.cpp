// The terms of DBNet's loss: cross entropy with hard negatives, L1 of the threshold, dice of the binary map.
#include <apps/ocr/detection/dbnet_loss.h>

#include <algorithm>
#include <cmath>

namespace lockstep::ocr {
namespace {

using torch::Tensor;

constexpr double kEps = 1e-6;
constexpr std::int64_t kLeastNegatives = 10;

Tensor total_of(const Tensor& values) { return values.sum(torch::kDouble); }

/// The number of negative pixels of one picture that count.
std::int64_t negatives_of(std::int64_t positive, std::int64_t negative, double ratio) {
  const auto wanted = std::max(static_cast<std::int64_t>(ratio * static_cast<double>(positive)), kLeastNegatives);
  return std::min(negative, wanted);
}

/// The weight of each value, so that the `kept` largest count: values equal to the last of them share the same
/// fraction. A network with equal outputs for many pixels, such as an untrained one in bfloat16, has thousands of equal
/// values.
Tensor shares_of_largest(const Tensor& values, std::int64_t kept) {
  const auto least = std::get<0>(torch::kthvalue(values, values.numel() - kept + 1));
  const auto larger = values > least, equal = values == least;
  const auto rest = static_cast<double>(kept - larger.sum().item<std::int64_t>());
  return larger + equal * (rest / static_cast<double>(equal.sum().item<std::int64_t>()));
}

/// Cross entropy of the pixels that count, and their number.
std::pair<Tensor, double> cross_entropy(const Tensor& probability, const Tensor& positive, const Tensor& negative,
                                        double ratio) {
  const auto loss = torch::binary_cross_entropy(probability, positive, {}, at::Reduction::None);
  const auto of_negative = loss * negative;
  auto total = total_of(loss * positive);
  double count = 0;
  const auto pictures = loss.size(0);
  const auto positives = positive.flatten(1).sum(1, /*keepdim=*/false, torch::kLong).cpu();
  const auto negatives = negative.flatten(1).sum(1, /*keepdim=*/false, torch::kLong).cpu();
  for (std::int64_t i = 0; i < pictures; ++i) {
    const auto own = positives[i].item<std::int64_t>();
    const auto kept = negatives_of(own, negatives[i].item<std::int64_t>(), ratio);
    count += static_cast<double>(own + kept);
    if (kept == 0) continue;
    const auto values = of_negative[i].flatten();
    total = total + total_of(values * shares_of_largest(values.detach(), kept));
  }
  return {total, count};
}

}  // namespace

void describe(ConfigFields& fields, DbnetLossOptions& options) {
  fields.field("binary_weight", options.binary_weight, at_least(0), "of the dice loss of the approximate binary map");
  fields.field("threshold_weight", options.threshold_weight, at_least(0), "of the L1 loss of the threshold map");
  fields.field("probability_weight", options.probability_weight, at_least(0),
               "of the cross entropy of the probability map");
  fields.field("negative_ratio", options.negative_ratio, between(0, 1e6),
               "the hardest pixels without text that count, for each pixel of text of a picture");
}

Tensor dbnet_sums(const TextMaps& maps, const TextTargets& targets, const DbnetLossOptions& options) {
  const auto dtype = maps.probability.scalar_type();
  const auto text = targets.text.to(dtype), mask = targets.mask.to(dtype);
  const auto positive = text * mask;
  const auto [entropy, pixels] = cross_entropy(maps.probability, positive, (1 - text) * mask, options.negative_ratio);
  const auto count = torch::full_like(entropy, pixels);
  const auto none = torch::zeros_like(entropy);
  auto error = none, error_pixels = none, both = none, sizes = none;
  if (maps.threshold.defined() && targets.threshold.defined()) {
    const auto counted = targets.threshold_mask.to(dtype);
    error = total_of((maps.threshold - targets.threshold).abs() * counted);
    error_pixels = total_of(counted);
  }
  if (maps.binary.defined()) {
    both = total_of(maps.binary * positive);
    sizes = total_of(maps.binary * mask) + total_of(positive);
  }
  return torch::stack({entropy, count, error, error_pixels, both, sizes});
}

Tensor dbnet_loss(const Tensor& sums, const DbnetLossOptions& options) {
  const auto [entropy, pixels] = std::pair(sums[0], sums[1]);
  auto loss = options.probability_weight * entropy / (pixels + kEps);
  loss = loss + options.threshold_weight * sums[2] / (sums[3] + kEps);
  // Without a binary map, as in evaluation, there is no overlap.
  if (sums[5].item<double>() > 0) loss = loss + options.binary_weight * (1 - 2 * sums[4] / (sums[5] + kEps));
  return loss;
}

}  // namespace lockstep::ocr
