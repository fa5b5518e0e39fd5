// The small networks: LeNet-5 (LeCun et al. 1998, "Gradient-based learning applied to document recognition") in its
// present-day form, and linear layers of given widths with ReLU between them, over flattened input.
#include <lockstep/base/error.h>
#include <lockstep/models/picture_models.h>

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <memory>

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

/// Two 5x5 convolutions (6 and 16 channels), each with ReLU and a 2x2 max pool, then linear layers of 120, 84 and
/// num_classes. The paper's sigmoids, trained subsampling and sparse connections between the convolutions are left out.
/// Takes pictures of 32x32, and of 28x28, which are padded with zeros to 32x32 as in the paper.
/// Parameters are named conv1, conv2, fc1, fc2, fc3.
class LeNet5 : public Network {
 public:
  LeNet5(std::int64_t num_classes, std::int64_t in_channels);

  /// Error(invalid_argument) for pictures of another size or number of channels.
  torch::Tensor forward(const torch::Tensor& pictures) override;

 private:
  std::int64_t in_channels_;
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  torch::nn::Linear fc1_;
  torch::nn::Linear fc2_;
  torch::nn::Linear fc3_;
};

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

}  // namespace

const PictureModel kLeNet5{.name = "lenet5",
                           .doc = "two convolutions and three linear layers, for pictures of 28x28 or 32x32",
                           .features = 84,
                           .has_hidden = false,
                           .has_stem = false,
                           .build = [](const ModelSpec& spec) -> std::shared_ptr<Network> {
                             return std::make_shared<LeNet5>(spec.num_classes, spec.in_channels);
                           }};

Mlp::Mlp(std::int64_t in_features, const std::vector<std::int64_t>& hidden, std::int64_t num_classes)
    : in_features_(in_features) {
  auto sizes = hidden;
  sizes.push_back(num_classes);
  std::int64_t inputs = in_features;
  for (const auto outputs : sizes) {
    const auto name = fmt::format("fc{}", layers_.size() + 1);
    layers_.push_back(register_module(name, torch::nn::Linear(inputs, outputs)));
    inputs = outputs;
  }
}

torch::Tensor Mlp::forward(const torch::Tensor& pictures) {
  auto x = pictures.dim() > 2 ? pictures.flatten(1) : pictures;
  if (x.dim() != 2 || x.size(1) != in_features_) {
    fail(ErrorKind::invalid_argument, "models",
         "mlp was built for {} values a sample; this batch has shape [{}]; change the data or the model's in_features",
         in_features_, fmt::join(pictures.sizes(), ", "));
  }
  x = layers_.front()(x);
  for (std::size_t i = 1; i < layers_.size(); ++i) x = layers_[i](x.relu());
  return x;
}

const PictureModel kMlp{.name = "mlp",
                        .doc = "linear layers with the widths model.hidden, for pictures of any size",
                        .features = 0,
                        .has_hidden = true,
                        .has_stem = false,
                        .build = [](const ModelSpec& spec) -> std::shared_ptr<Network> {
                          return std::make_shared<Mlp>(spec.in_features, spec.hidden, spec.num_classes);
                        }};

}  // namespace lockstep::models
