// The loss of DBNet: sums over the pixels of a batch, and what is made of the sums of all ranks.
#pragma once

#include <lockstep/ocr/detection/dbnet.h>

namespace lockstep::ocr {

struct DbnetLossOptions {
  double binary_weight = 1;       ///< of the approximate binary map's dice loss
  double threshold_weight = 10;   ///< of the threshold's L1 loss
  double probability_weight = 5;  ///< of the probability's cross entropy
  double negative_ratio = 3;      ///< negative pixels that count, to the positive ones of a picture
};
void describe(ConfigFields& fields, DbnetLossOptions& options);

/// What the maps should be: text and masks uint8 (or bool), threshold float, all [N, H, W]. Without threshold and
/// its mask, only the probability is judged.
struct TextTargets {
  torch::Tensor text;
  torch::Tensor mask;
  torch::Tensor threshold{};
  torch::Tensor threshold_mask{};
};

inline constexpr std::int64_t kDbnetSums = 6;

/// float64 [kDbnetSums], which autograd can follow: cross entropy, and pixels it is of; threshold error, and pixels;
/// overlap of the binary map with the text, and the sizes of both together. Of the negative pixels of a picture count
/// those with the largest cross entropy: `negative_ratio` for each positive one, but at least 10, if there are so many;
/// pixels that are equal to the last of them count for the same fraction. So each picture is judged by itself.
torch::Tensor dbnet_sums(const TextMaps& maps, const TextTargets& targets, const DbnetLossOptions& options);

/// The loss from the sums of all pictures. A part of which there are no pixels is 0.
torch::Tensor dbnet_loss(const torch::Tensor& sums, const DbnetLossOptions& options);

}  // namespace lockstep::ocr
