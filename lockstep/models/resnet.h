// ResNets for ImageNet-sized pictures, with the same weights as torchvision's.
#pragma once

#include <lockstep/models/picture_model.h>
#include <lockstep/models/residual_stage.h>

#include <array>
#include <memory>

namespace lockstep::models {

/// The first layers of a ResNet.
enum class Stem {
  imagenet,  ///< 7x7 convolution with stride 2, and a max pool with stride 2
  cifar,     ///< 3x3 convolution with stride 1, as MMEngine's ResNet_CIFAR: for pictures of 32x32
};

/// Error(invalid_argument) for a ModelSpec::stem that is not the name of a stem.
Stem stem_of(const ModelSpec& spec);

struct ResNetShape {
  Block block = Block::basic;
  std::array<std::int64_t, 4> depths = {2, 2, 2, 2};  ///< blocks in layer1 .. layer4
  std::int64_t num_classes = 1000;
  std::int64_t in_channels = 3;
  Stem stem = Stem::imagenet;
};

/// A stem, four stages, mean over the pixels, one linear layer. Takes pictures of any size from 1x1; a picture of 32x32
/// is one pixel in the last stage, with the stem `cifar` 4x4. Names and shapes of parameters and buffers are
/// torchvision's, and after the same torch::manual_seed their values are, too. With the stem `cifar`, the shape of
/// conv1.weight differs.
class ResNet : public Network {
 public:
  explicit ResNet(const ResNetShape& shape);
  torch::Tensor forward(const torch::Tensor& pictures) override;

 private:
  std::int64_t in_channels_;
  Stem stem_;
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Sequential layer1_;
  torch::nn::Sequential layer2_;
  torch::nn::Sequential layer3_;
  torch::nn::Sequential layer4_;
  torch::nn::Linear fc_;
};

std::shared_ptr<ResNet> resnet18(std::int64_t num_classes = 1000, std::int64_t in_channels = 3,
                                 Stem stem = Stem::imagenet);
std::shared_ptr<ResNet> resnet34(std::int64_t num_classes = 1000, std::int64_t in_channels = 3,
                                 Stem stem = Stem::imagenet);
std::shared_ptr<ResNet> resnet50(std::int64_t num_classes = 1000, std::int64_t in_channels = 3,
                                 Stem stem = Stem::imagenet);

inline constexpr PictureModel kResNet18{.name = "resnet18",
                                        .doc = "residual network of 18 layers, for pictures of 224x224",
                                        .features = 512,
                                        .has_hidden = false,
                                        .has_stem = true,
                                        .build = [](const ModelSpec& spec) -> std::shared_ptr<Network> {
                                          return resnet18(spec.num_classes, spec.in_channels, stem_of(spec));
                                        }};

inline constexpr PictureModel kResNet34{.name = "resnet34",
                                        .doc = "residual network of 34 layers, for pictures of 224x224",
                                        .features = 512,
                                        .has_hidden = false,
                                        .has_stem = true,
                                        .build = [](const ModelSpec& spec) -> std::shared_ptr<Network> {
                                          return resnet34(spec.num_classes, spec.in_channels, stem_of(spec));
                                        }};

inline constexpr PictureModel kResNet50{.name = "resnet50",
                                        .doc = "residual network of 50 layers, for pictures of 224x224",
                                        .features = 2048,
                                        .has_hidden = false,
                                        .has_stem = true,
                                        .build = [](const ModelSpec& spec) -> std::shared_ptr<Network> {
                                          return resnet50(spec.num_classes, spec.in_channels, stem_of(spec));
                                        }};

}  // namespace lockstep::models
