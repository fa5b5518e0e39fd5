// LeNet-5's layers, and the padding of 28 x 28 pictures.
#include <lockstep/models/lenet.h>

#include <lockstep/base/error.h>

namespace lockstep::models {
namespace {

torch::Tensor as_32x32(const torch::Tensor& pictures) {
  const auto height = pictures.size(2);
  const auto width = pictures.size(3);
  if (height == 32 && width == 32) return pictures;
  if (height == 28 && width == 28) return torch::constant_pad_nd(pictures, {2, 2, 2, 2});
  fail(ErrorKind::invalid_argument, "models", "lenet5 takes pictures of 28x28 or 32x32; these are {}x{}; resize them",
       height, width);
}

}  // namespace

LeNet5::LeNet5(std::int64_t num_classes, std::int64_t in_channels)
    : in_channels_(in_channels),
      conv1_(register_module("conv1", torch::nn::Conv2d(in_channels, 6, 5))),
      conv2_(register_module("conv2", torch::nn::Conv2d(6, 16, 5))),
      fc1_(register_module("fc1", torch::nn::Linear(16 * 5 * 5, 120))),
      fc2_(register_module("fc2", torch::nn::Linear(120, 84))),
      fc3_(register_module("fc3", torch::nn::Linear(84, num_classes))) {}

torch::Tensor LeNet5::forward(const torch::Tensor& pictures) {
  require_pictures(pictures, in_channels_, "lenet5");
  auto x = torch::max_pool2d(conv1_(as_32x32(pictures)).relu(), 2);
  x = torch::max_pool2d(conv2_(x).relu(), 2).flatten(1);
  x = fc1_(x).relu();
  x = fc2_(x).relu();
  return fc3_(x);
}

std::shared_ptr<LeNet5> lenet5(std::int64_t num_classes, std::int64_t in_channels) {
  return std::make_shared<LeNet5>(num_classes, in_channels);
}

}  // namespace lockstep::models
