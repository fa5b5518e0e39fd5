// The loss of DBNet: sums over the pixels of a batch, and the loss from the sums of all ranks.
#pragma once

#include <apps/ocr/detection/dbnet.h>

namespace lockstep::ocr {

struct DbnetLossOptions {
  double binary_weight = 1;       ///< of the approximate binary map's dice loss
  double threshold_weight = 10;   ///< of the threshold's L1 loss
  double probability_weight = 5;  ///< of the probability's cross entropy
  double negative_ratio = 3;      ///< ratio of negative pixels that count to positive pixels of a picture
};
void describe(ConfigFields& fields, DbnetLossOptions& options);

/// The targets of the maps: text and masks uint8 (or bool), threshold float, all [N, H, W]. Without threshold and its
/// mask, only the probability has a loss.
struct TextTargets {
  torch::Tensor text;
  torch::Tensor mask;
  torch::Tensor threshold{};
  torch::Tensor threshold_mask{};
};

inline constexpr std::int64_t kDbnetSums = 6;

/// float64 [kDbnetSums], which autograd can follow: cross entropy, and its pixels; threshold error, and its pixels;
/// overlap of the binary map with the text, and the sum of the sizes of both. Only the negative pixels of a picture
/// with the largest cross entropy count: `negative_ratio` for each positive one, but at least 10, if there are so many;
/// pixels equal to the last of them share the same fraction. So the selection of each picture is independent of the
/// others.
torch::Tensor dbnet_sums(const TextMaps& maps, const TextTargets& targets, const DbnetLossOptions& options);

/// The loss from the sums of all pictures. A term without pixels is 0.
torch::Tensor dbnet_loss(const torch::Tensor& sums, const DbnetLossOptions& options);

}  // namespace lockstep::ocr
