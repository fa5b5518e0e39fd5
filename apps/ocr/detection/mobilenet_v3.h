// MobileNetV3 (Howard et al. 2019, arXiv:1905.02244), the large one, as a backbone with outputs at four scales.
#pragma once

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep::ocr {

class MobileBlock;

/// Layers have MindCV's names: `features.0.weight`, `features.5.layers.0.weight`, ... Each block expands, and
/// convolutions with a stride pad at the right and below only, as MindSpore's "same" does, so that weights of MindOCR
/// get the same pixels as in their training.
class MobileNetV3 : public torch::nn::Module {
 public:
  /// `width` multiplies all numbers of channels, which are rounded to multiples of 8.
  explicit MobileNetV3(double width);

  /// The maps at 1/4, 1/8, 1/16 and 1/32 of the pictures' sides, which must be multiples of 32.
  std::array<torch::Tensor, 4> levels(const torch::Tensor& pictures);
  /// The channels of these maps.
  const std::array<std::int64_t, 4>& channels() const { return channels_; }

 private:
  std::array<std::int64_t, 4> channels_{};
  torch::nn::Conv2d stem_ = nullptr, last_ = nullptr;
  torch::nn::BatchNorm2d stem_norm_ = nullptr, last_norm_ = nullptr;
  std::vector<std::shared_ptr<MobileBlock>> blocks_;
};

/// A number of channels times `width`: the nearest multiple of 8, and not below 9/10 of it.
std::int64_t mobile_channels(double channels);

}  // namespace lockstep::ocr
