// ResNet-20 and its kind: a 3 x 3 stem and three stages of basic blocks with parameter-free shortcuts.
#include <lockstep/models/resnet_cifar.h>

#include <lockstep/models/residual_stage.h>

namespace lockstep::models {
namespace {

torch::nn::Sequential make_stage(std::int64_t in_channels, std::int64_t channels, std::int64_t depth) {
  return residual_stage({.block = Block::basic,
                         .shortcut = Shortcut::padding,
                         .in_channels = in_channels,
                         .channels = channels,
                         .depth = depth,
                         .stride = channels / in_channels});
}

}  // namespace

CifarResNet::CifarResNet(std::int64_t blocks_per_stage, std::int64_t num_classes, std::int64_t in_channels)
    : in_channels_(in_channels),
      conv1_(register_module("conv1", conv3x3(in_channels, 16))),
      bn1_(register_module("bn1", torch::nn::BatchNorm2d(16))),
      layer1_(register_module("layer1", make_stage(16, 16, blocks_per_stage))),
      layer2_(register_module("layer2", make_stage(16, 32, blocks_per_stage))),
      layer3_(register_module("layer3", make_stage(32, 64, blocks_per_stage))),
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

std::shared_ptr<CifarResNet> resnet20(std::int64_t num_classes, std::int64_t in_channels) {
  return std::make_shared<CifarResNet>(3, num_classes, in_channels);
}

}  // namespace lockstep::models
