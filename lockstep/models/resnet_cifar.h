// The small ResNets that He et al. 2015 (arXiv:1512.03385, section 4.2) trained on CIFAR-10.
#pragma once

#include <lockstep/models/picture_model.h>

#include <memory>

namespace lockstep::models {

/// 3x3 convolution to 16 channels, three stages of `blocks_per_stage` basic blocks at 16, 32 and 64 channels with
/// parameter-free shortcuts, mean over the pixels, one linear layer: 6 * blocks_per_stage + 2 layers with weights.
/// Parameters are named conv1, bn1, layer1 .. layer3, fc.
class CifarResNet : public Network {
 public:
  CifarResNet(std::int64_t blocks_per_stage, std::int64_t num_classes, std::int64_t in_channels);
  torch::Tensor forward(const torch::Tensor& pictures) override;

 private:
  std::int64_t in_channels_;
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Sequential layer1_;
  torch::nn::Sequential layer2_;
  torch::nn::Sequential layer3_;
  torch::nn::Linear fc_;
};

std::shared_ptr<CifarResNet> resnet20(std::int64_t num_classes = 10, std::int64_t in_channels = 3);

inline constexpr PictureModel kResNet20{.name = "resnet20",
                                        .doc = "residual network of 20 layers, for pictures of 32x32",
                                        .features = 64,
                                        .has_hidden = false,
                                        .has_stem = false,
                                        .build = [](const ModelSpec& spec) -> std::shared_ptr<Network> {
                                          return resnet20(spec.num_classes, spec.in_channels);
                                        }};

}  // namespace lockstep::models
