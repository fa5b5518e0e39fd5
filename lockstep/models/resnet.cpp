// ResNet-18, -34 and -50 as torchvision builds them, in the same order of random numbers, and ResNet-20 of CIFAR-10.
#include <lockstep/base/error.h>
#include <lockstep/models/network.h>
#include <lockstep/models/picture_models.h>

#include <torch/torch.h>

#include <array>
#include <memory>

namespace lockstep::models {
namespace {

using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Linear;

struct ResNetShape {
  Block block = Block::basic;
  std::array<std::int64_t, 4> depths = {2, 2, 2, 2};  ///< blocks in layer1 .. layer4
  std::int64_t num_classes = 1000;
  std::int64_t in_channels = 3;
  Stem stem = Stem::imagenet;
};

constexpr std::int64_t kStemChannels = 64;

Conv2d first_convolution(const ResNetShape& shape) {
  if (shape.stem == Stem::cifar) return conv3x3(shape.in_channels, kStemChannels);
  return Conv2d(Conv2dOptions(shape.in_channels, kStemChannels, 7).stride(2).padding(3).bias(false));
}

/// Stages are counted from 0; each doubles the channels and, after the first, halves the picture.
torch::nn::Sequential make_stage(const ResNetShape& shape, int stage) {
  const std::int64_t channels = kStemChannels << stage;
  return residual_stage({.block = shape.block,
                         .shortcut = Shortcut::projection,
                         .in_channels = stage == 0 ? kStemChannels : channels / 2 * expansion(shape.block),
                         .channels = channels,
                         .depth = shape.depths.at(static_cast<std::size_t>(stage)),
                         .stride = stage == 0 ? 1 : 2});
}

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

ResNet::ResNet(const ResNetShape& shape)
    : in_channels_(shape.in_channels),
      stem_(shape.stem),
      conv1_(register_module("conv1", first_convolution(shape))),
      bn1_(register_module("bn1", BatchNorm2d(kStemChannels))),
      layer1_(register_module("layer1", make_stage(shape, 0))),
      layer2_(register_module("layer2", make_stage(shape, 1))),
      layer3_(register_module("layer3", make_stage(shape, 2))),
      layer4_(register_module("layer4", make_stage(shape, 3))),
      fc_(register_module("fc", Linear(kStemChannels * 8 * expansion(shape.block), shape.num_classes))) {
  initialize_residual(*this);
}

torch::Tensor ResNet::forward(const torch::Tensor& pictures) {
  require_pictures(pictures, in_channels_, "resnet");
  auto x = bn1_(conv1_(pictures)).relu_();
  if (stem_ == Stem::imagenet) x = torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
  x = layer1_->forward(x);
  x = layer2_->forward(x);
  x = layer3_->forward(x);
  x = layer4_->forward(x);
  x = torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
  return fc_(x);
}

torch::nn::Sequential make_small_stage(std::int64_t in_channels, std::int64_t channels, std::int64_t depth) {
  return residual_stage({.block = Block::basic,
                         .shortcut = Shortcut::padding,
                         .in_channels = in_channels,
                         .channels = channels,
                         .depth = depth,
                         .stride = channels / in_channels});
}

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

CifarResNet::CifarResNet(std::int64_t blocks_per_stage, std::int64_t num_classes, std::int64_t in_channels)
    : in_channels_(in_channels),
      conv1_(register_module("conv1", conv3x3(in_channels, 16))),
      bn1_(register_module("bn1", torch::nn::BatchNorm2d(16))),
      layer1_(register_module("layer1", make_small_stage(16, 16, blocks_per_stage))),
      layer2_(register_module("layer2", make_small_stage(16, 32, blocks_per_stage))),
      layer3_(register_module("layer3", make_small_stage(32, 64, blocks_per_stage))),
      fc_(register_module("fc", torch::nn::Linear(64, num_classes))) {
  initialize_residual(*this);
}

torch::Tensor CifarResNet::forward(const torch::Tensor& pictures) {
  require_pictures(pictures, in_channels_, "resnet20");
  auto x = bn1_(conv1_(pictures)).relu_();
  x = layer1_->forward(x);
  x = layer2_->forward(x);
  x = layer3_->forward(x);
  x = torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
  return fc_(x);
}

}  // namespace

Stem stem_of(const ModelSpec& spec) {
  if (spec.stem == "imagenet") return Stem::imagenet;
  if (spec.stem == "cifar") return Stem::cifar;
  fail(ErrorKind::invalid_argument, "models", "the stem of {} is imagenet or cifar, not '{}'", spec.name, spec.stem);
}

std::shared_ptr<Network> resnet18(std::int64_t num_classes, std::int64_t in_channels, Stem stem) {
  return std::make_shared<ResNet>(ResNetShape{Block::basic, {2, 2, 2, 2}, num_classes, in_channels, stem});
}

std::shared_ptr<Network> resnet34(std::int64_t num_classes, std::int64_t in_channels, Stem stem) {
  return std::make_shared<ResNet>(ResNetShape{Block::basic, {3, 4, 6, 3}, num_classes, in_channels, stem});
}

std::shared_ptr<Network> resnet50(std::int64_t num_classes, std::int64_t in_channels, Stem stem) {
  return std::make_shared<ResNet>(ResNetShape{Block::bottleneck, {3, 4, 6, 3}, num_classes, in_channels, stem});
}

std::shared_ptr<Network> resnet20(std::int64_t num_classes, std::int64_t in_channels) {
  return std::make_shared<CifarResNet>(/*blocks_per_stage=*/3, num_classes, in_channels);
}

const PictureModel kResNet18{.name = "resnet18",
                             .doc = "residual network of 18 layers, for pictures of 224x224",
                             .features = 512,
                             .has_hidden = false,
                             .has_stem = true,
                             .build = [](const ModelSpec& spec) -> std::shared_ptr<Network> {
                               return resnet18(spec.num_classes, spec.in_channels, stem_of(spec));
                             }};

const PictureModel kResNet34{.name = "resnet34",
                             .doc = "residual network of 34 layers, for pictures of 224x224",
                             .features = 512,
                             .has_hidden = false,
                             .has_stem = true,
                             .build = [](const ModelSpec& spec) -> std::shared_ptr<Network> {
                               return resnet34(spec.num_classes, spec.in_channels, stem_of(spec));
                             }};

const PictureModel kResNet50{.name = "resnet50",
                             .doc = "residual network of 50 layers, for pictures of 224x224",
                             .features = 2048,
                             .has_hidden = false,
                             .has_stem = true,
                             .build = [](const ModelSpec& spec) -> std::shared_ptr<Network> {
                               return resnet50(spec.num_classes, spec.in_channels, stem_of(spec));
                             }};

const PictureModel kResNet20{.name = "resnet20",
                             .doc = "residual network of 20 layers, for pictures of 32x32",
                             .features = 64,
                             .has_hidden = false,
                             .has_stem = false,
                             .build = [](const ModelSpec& spec) -> std::shared_ptr<Network> {
                               return resnet20(spec.num_classes, spec.in_channels);
                             }};

}  // namespace lockstep::models
