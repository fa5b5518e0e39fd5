// ResNet-18, -34 and -50 as torchvision builds them, in the same order of random numbers.
#include <lockstep/models/resnet.h>

#include <lockstep/base/error.h>

namespace lockstep::models {
namespace {

using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Linear;

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

}  // namespace

Stem stem_of(const ModelSpec& spec) {
  if (spec.stem == "imagenet") return Stem::imagenet;
  if (spec.stem == "cifar") return Stem::cifar;
  fail(ErrorKind::invalid_argument, "models", "the stem of {} is imagenet or cifar, not '{}'", spec.name, spec.stem);
}

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

std::shared_ptr<ResNet> resnet18(std::int64_t num_classes, std::int64_t in_channels, Stem stem) {
  return std::make_shared<ResNet>(ResNetShape{Block::basic, {2, 2, 2, 2}, num_classes, in_channels, stem});
}

std::shared_ptr<ResNet> resnet34(std::int64_t num_classes, std::int64_t in_channels, Stem stem) {
  return std::make_shared<ResNet>(ResNetShape{Block::basic, {3, 4, 6, 3}, num_classes, in_channels, stem});
}

std::shared_ptr<ResNet> resnet50(std::int64_t num_classes, std::int64_t in_channels, Stem stem) {
  return std::make_shared<ResNet>(ResNetShape{Block::bottleneck, {3, 4, 6, 3}, num_classes, in_channels, stem});
}

}  // namespace lockstep::models
