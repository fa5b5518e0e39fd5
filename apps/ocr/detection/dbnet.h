// DBNet, which finds text by segmentation with a learned threshold (Liao et al. 2020, arXiv:1911.08947).
#pragma once

#include <apps/ocr/detection/mobilenet_v3.h>
#include <lockstep/base/config.h>
#include <lockstep/train/named_tensors.h>

#include <torch/torch.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::ocr {

struct DbnetOptions {
  std::string backbone = "resnet";  ///< resnet or mobilenet_v3
  std::int64_t depth = 50;          ///< of the ResNet: 18 or 50
  double width = 0.5;               ///< of MobileNetV3: the ratio of its channels to the paper's
  std::int64_t channels = 256;      ///< of the feature pyramid
  double k = 50;                    ///< steepness of the approximate binary map
  std::optional<std::string> backbone_weights{};
};
void describe(ConfigFields& fields, DbnetOptions& options);

/// The outputs of the network for pictures, each float32 [N, H, W] from 0 to 1.
struct TextMaps {
  torch::Tensor probability;
  torch::Tensor threshold;  ///< in training only
  torch::Tensor binary;     ///< in training only: sigmoid(k * (probability - threshold))
};

/// ResNet-18 or -50 with torchvision's names below `backbone.`, or MobileNetV3 with MindCV's, a feature pyramid `fpn.`,
/// and two equal heads, `head.segm.` and `head.thresh.`.
class Dbnet : public torch::nn::Module, public train::KnowsOtherNames {
 public:
  explicit Dbnet(const DbnetOptions& options);

  /// Pictures, float [N, 3, H, W]; H and W must be multiples of 32.
  TextMaps forward(const torch::Tensor& pictures);

  /// The names of MindOCR's weights.
  std::vector<train::Rename> other_names() const override;

  /// Loads options.backbone_weights, torchvision's names or MindCV's (of MobileNetV3 the latter only). The classifier
  /// is ignored. Returns remarks for users. Error(config) naming the key.
  std::vector<std::string> load_backbone();

 private:
  void build_resnet();
  std::array<torch::Tensor, 4> levels(const torch::Tensor& pictures);
  torch::Tensor features(const torch::Tensor& pictures);
  torch::Tensor head(torch::nn::Sequential& branch, const torch::Tensor& features);

  DbnetOptions options_;
  std::array<std::int64_t, 4> widths_{};  ///< channels of the backbone's levels, finest first
  std::shared_ptr<torch::nn::Module> backbone_;
  std::shared_ptr<MobileNetV3> mobile_;  ///< the backbone, if it is MobileNetV3; then the next three members are unused
  torch::nn::Conv2d stem_ = nullptr;
  torch::nn::BatchNorm2d stem_norm_ = nullptr;
  std::vector<torch::nn::Sequential> stages_;  ///< finest first
  std::vector<torch::nn::Conv2d> laterals_;    ///< of those
  std::vector<torch::nn::Conv2d> outs_;        ///< of those
  torch::nn::Sequential segm_ = nullptr;
  torch::nn::Sequential thresh_ = nullptr;
};

}  // namespace lockstep::ocr
