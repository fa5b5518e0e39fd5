// The residual network of CRNN.
#include <lockstep/kernels/recompute.h>
#include <lockstep/ocr/recognition/crnn.h>

#include <array>
#include <utility>

namespace lockstep::ocr {
namespace {

using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Sequential;

/// Of the first block of a stage: rows that are to be left out, and none of the columns.
struct BlockShape {
  std::int64_t in;
  std::int64_t out;
  std::int64_t row_stride;
};

Conv2d conv3x3(std::int64_t in, std::int64_t out, std::int64_t row_stride = 1) {
  return Conv2d(Conv2dOptions(in, out, 3).stride({row_stride, 1}).padding(1).bias(false));
}

/// Averages the rows before the convolution, so that no pixel goes unseen.
Sequential shortcut(const BlockShape& shape) {
  Sequential layers;
  if (shape.row_stride > 1) {
    layers->push_back(torch::nn::AvgPool2d(
        torch::nn::AvgPool2dOptions({shape.row_stride, 1}).stride({shape.row_stride, 1}).ceil_mode(true)));
  }
  layers->push_back(Conv2d(Conv2dOptions(shape.in, shape.out, 1).bias(false)));
  layers->push_back(BatchNorm2d(shape.out));
  return layers;
}

class Block : public torch::nn::Module, public Recomputable {
 public:
  Block(const BlockShape& shape, bool is_first)
      : conv1_(register_module("conv1", conv3x3(shape.in, shape.out, shape.row_stride))),
        bn1_(register_module("bn1", BatchNorm2d(shape.out))),
        conv2_(register_module("conv2", conv3x3(shape.out, shape.out))),
        bn2_(register_module("bn2", BatchNorm2d(shape.out))),
        downsample_(nullptr) {
    if (is_first) downsample_ = register_module("downsample", shortcut(shape));
  }

  torch::Tensor forward(const torch::Tensor& in) {
    return recomputed(*this, in, [this](const torch::Tensor& x) {
      auto out = bn1_(conv1_(x)).relu_();
      out = bn2_(conv2_(out));
      out += downsample_ ? downsample_->forward(x) : x;
      return out.relu_();
    });
  }

 private:
  Conv2d conv1_;
  BatchNorm2d bn1_;
  Conv2d conv2_;
  BatchNorm2d bn2_;
  Sequential downsample_;
};

Sequential stage(std::int64_t in, std::int64_t out, std::int64_t depth, std::int64_t row_stride) {
  Sequential blocks;
  for (std::int64_t i = 0; i < depth; ++i) {
    const BlockShape shape = i == 0 ? BlockShape{in, out, row_stride} : BlockShape{out, out, 1};
    blocks->push_back(std::make_shared<Block>(shape, i == 0));
  }
  return blocks;
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
