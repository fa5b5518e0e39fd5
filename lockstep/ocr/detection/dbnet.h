// DBNet, which finds text by segmentation with a learned threshold (Liao et al. 2020, arXiv:1911.08947).
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/train/weights/weight_names.h>

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::ocr {

struct DbnetOptions {
  std::int64_t depth = 50;      ///< of the ResNet: 18 or 50
  std::int64_t channels = 256;  ///< of the feature pyramid
  double k = 50;                ///< steepness of the approximate binary map
  std::optional<std::string> backbone_weights{};
};
void describe(ConfigFields& fields, DbnetOptions& options);

/// What the network says of pictures, each float32 [N, H, W] from 0 to 1.
struct TextMaps {
  torch::Tensor probability;
  torch::Tensor threshold;  ///< in training only
  torch::Tensor binary;     ///< in training only: sigmoid(k * (probability - threshold))
};

/// ResNet-18 or -50 with torchvision's names below `backbone.`, a feature pyramid `fpn.`, and two equal heads,
/// `head.segm.` and `head.thresh.`.
class Dbnet : public torch::nn::Module, public train::KnowsOtherNames {
 public:
  explicit Dbnet(const DbnetOptions& options);

  /// Pictures, float [N, 3, H, W]; H and W must be multiples of 32.
  TextMaps forward(const torch::Tensor& pictures);

  /// Those of MindOCR.
  std::vector<train::Rename> other_names() const override;

  /// Loads options.backbone_weights, torchvision's names or MindCV's. The classifier is passed over. What was done,
  /// for people. Error(config) naming the key.
  std::vector<std::string> load_backbone();

 private:
  torch::Tensor features(const torch::Tensor& pictures);
  torch::Tensor head(torch::nn::Sequential& branch, const torch::Tensor& features);

  DbnetOptions options_;
  std::shared_ptr<torch::nn::Module> backbone_;
  torch::nn::Conv2d stem_ = nullptr;
  torch::nn::BatchNorm2d stem_norm_ = nullptr;
  std::vector<torch::nn::Sequential> stages_;  ///< finest first
  std::vector<torch::nn::Conv2d> laterals_;    ///< of those
  std::vector<torch::nn::Conv2d> outs_;        ///< of those
  torch::nn::Sequential segm_ = nullptr;
  torch::nn::Sequential thresh_ = nullptr;
};

}  // namespace lockstep::ocr
