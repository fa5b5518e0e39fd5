// The seven convolutions of CRNN.
#include <apps/ocr/recognition/crnn.h>

#include <cmath>

namespace lockstep::ocr {
namespace {

using torch::nn::BatchNorm2d;
using torch::nn::BatchNorm2dOptions;
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;

/// A normal distribution without values that are more than two deviations away.
void truncated_normal(torch::Tensor& tensor, double deviation) {
  const torch::NoGradGuard no_grad;
  const double within = std::erf(std::sqrt(2.0));  // the share of a normal distribution that is kept
  tensor.uniform_(-within, within).erfinv_().mul_(deviation * std::sqrt(2.0));
}

/// `width`: of the network, 1 for the published one. A narrower one has larger weights, so that the signal that reaches
/// the first batch norm stays above its epsilon.
Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t side, double width) {
  Conv2d conv(Conv2dOptions(in, out, side).padding(side == 3 ? 1 : 0));
  truncated_normal(conv->weight, 0.02 / std::sqrt(width));
  truncated_normal(conv->bias, 0.01);
  return conv;
}

double width_of(std::int64_t channels) { return static_cast<double>(channels) / 64; }

BatchNorm2d norm(std::int64_t channels) { return BatchNorm2d(BatchNorm2dOptions(channels).eps(1e-4)); }

class WordVgg final : public WordBackbone {
 public:
  explicit WordVgg(std::int64_t channels)
      : channels_(channels),
        conv1_(register_module("conv1", convolution(3, channels, 3, width_of(channels)))),
        conv2_(register_module("conv2", convolution(channels, 2 * channels, 3, width_of(channels)))),
        conv3_(register_module("conv3", convolution(2 * channels, 4 * channels, 3, width_of(channels)))),
        bn3_(register_module("bn3", norm(4 * channels))),
        conv4_(register_module("conv4", convolution(4 * channels, 4 * channels, 3, width_of(channels)))),
        conv5_(register_module("conv5", convolution(4 * channels, 8 * channels, 3, width_of(channels)))),
        bn5_(register_module("bn5", norm(8 * channels))),
        conv6_(register_module("conv6", convolution(8 * channels, 8 * channels, 3, width_of(channels)))),
        conv7_(register_module("conv7", convolution(8 * channels, 8 * channels, 2, width_of(channels)))),
        bn7_(register_module("bn7", norm(8 * channels))) {}

  torch::Tensor forward(const torch::Tensor& pictures) override {
    auto x = torch::max_pool2d(conv1_(pictures).relu_(), 2);
    x = torch::max_pool2d(conv2_(x).relu_(), 2);
    x = bn3_(conv3_(x)).relu_();
    x = torch::max_pool2d(conv4_(x).relu_(), {2, 1}, {2, 1});
    x = bn5_(conv5_(x)).relu_();
    x = torch::max_pool2d(conv6_(x).relu_(), {2, 1}, {2, 1});
    return bn7_(conv7_(x)).relu_();
  }

  std::int64_t out_channels() const override { return 8 * channels_; }

 private:
  std::int64_t channels_;
  Conv2d conv1_;
  Conv2d conv2_;
  Conv2d conv3_;
  BatchNorm2d bn3_;
  Conv2d conv4_;
  Conv2d conv5_;
  BatchNorm2d bn5_;
  Conv2d conv6_;
  Conv2d conv7_;
  BatchNorm2d bn7_;
};

}  // namespace

std::shared_ptr<WordBackbone> word_vgg7(std::int64_t channels) { return std::make_shared<WordVgg>(channels); }

}  // namespace lockstep::ocr
