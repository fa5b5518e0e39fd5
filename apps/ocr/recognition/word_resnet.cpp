// The residual network of CRNN.
#include <apps/ocr/recognition/crnn.h>
#include <lockstep/models/network.h>

namespace lockstep::ocr {
namespace {

using models::conv3x3;
using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Sequential;

/// The stride of the first block applies to rows, not to columns.
Sequential stage(std::int64_t in, std::int64_t out, std::int64_t depth, std::int64_t row_stride) {
  return models::residual_stage({.block = models::Block::basic,
                                 .shortcut = models::Shortcut::pooled,
                                 .in_channels = in,
                                 .channels = out,
                                 .depth = depth,
                                 .stride = row_stride,
                                 .column_stride = 1});
}

class WordResNet final : public WordBackbone {
 public:
  explicit WordResNet(std::int64_t channels)
      : channels_(channels),
        conv1_(register_module("conv1", conv3x3(3, channels / 2))),
        bn1_(register_module("bn1", BatchNorm2d(channels / 2))),
        conv2_(register_module("conv2", conv3x3(channels / 2, channels / 2))),
        bn2_(register_module("bn2", BatchNorm2d(channels / 2))),
        conv3_(register_module("conv3", conv3x3(channels / 2, channels))),
        bn3_(register_module("bn3", BatchNorm2d(channels))),
        layer1_(register_module("layer1", stage(channels, channels, 3, 1))),
        layer2_(register_module("layer2", stage(channels, 2 * channels, 4, 2))),
        layer3_(register_module("layer3", stage(2 * channels, 4 * channels, 6, 2))),
        layer4_(register_module("layer4", stage(4 * channels, 8 * channels, 3, 2))) {}

  torch::Tensor forward(const torch::Tensor& pictures) override {
    auto x = bn1_(conv1_(pictures)).relu_();
    x = bn2_(conv2_(x)).relu_();
    x = bn3_(conv3_(x)).relu_();
    // Ceiling: the last window reaches beyond the picture, below and right, as in the published weights' network.
    x = torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/0, /*dilation=*/1, /*ceil_mode=*/true);
    x = layer1_->forward(x);
    x = layer2_->forward(x);
    x = layer3_->forward(x);
    x = layer4_->forward(x);
    return torch::max_pool2d(x, /*kernel_size=*/2, /*stride=*/2);
  }

  std::int64_t out_channels() const override { return 8 * channels_; }

 private:
  std::int64_t channels_;
  Conv2d conv1_;
  BatchNorm2d bn1_;
  Conv2d conv2_;
  BatchNorm2d bn2_;
  Conv2d conv3_;
  BatchNorm2d bn3_;
  Sequential layer1_;
  Sequential layer2_;
  Sequential layer3_;
  Sequential layer4_;
};

}  // namespace

std::shared_ptr<WordBackbone> word_resnet34(std::int64_t channels) { return std::make_shared<WordResNet>(channels); }

}  // namespace lockstep::ocr
