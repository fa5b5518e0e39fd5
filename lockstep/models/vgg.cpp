// VGG11: convolutions followed by wide linear layers, which hold most of the parameters (Simonyan and Zisserman 2014,
// arXiv:1409.1556, configuration A).
#include <lockstep/base/error.h>
#include <lockstep/models/picture_models.h>

#include <torch/torch.h>

#include <fmt/format.h>

#include <array>
#include <memory>
#include <vector>

namespace lockstep::models {
namespace {

struct Convolution {
  std::int64_t channels;
  bool ends_stage;
};
constexpr std::array kConvolutions{Convolution{64, true},   Convolution{128, true},  Convolution{256, false},
                                   Convolution{256, true},  Convolution{512, false}, Convolution{512, true},
                                   Convolution{512, false}, Convolution{512, true}};
constexpr std::int64_t kSmallestPicture = 32;
constexpr double kDeviationOfLinear = 0.01;

/// Eight 3x3 convolutions with ReLU in five stages that each halve the picture, mean over the pixels that are left, and
/// linear layers of widths `hidden` with ReLU between them. (The original flattens 7x7 pixels instead and has dropout.)
/// Parameters are named conv1 .. conv8, fc1, fc2, ...
class Vgg11 : public Network {
 public:
  Vgg11(std::int64_t num_classes, std::int64_t in_channels, const std::vector<std::int64_t>& hidden);
  /// Takes pictures of 32x32 and larger.
  torch::Tensor forward(const torch::Tensor& pictures) override;

 private:
  std::int64_t in_channels_;
  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<torch::nn::Linear> layers_;
};

Vgg11::Vgg11(std::int64_t num_classes, std::int64_t in_channels, const std::vector<std::int64_t>& hidden)
    : in_channels_(in_channels) {
  std::int64_t channels = in_channels;
  for (const auto& each : kConvolutions) {
    const auto options = torch::nn::Conv2dOptions(channels, each.channels, 3).padding(1);
    convolutions_.push_back(
        register_module(fmt::format("conv{}", convolutions_.size() + 1), torch::nn::Conv2d(options)));
    channels = each.channels;
  }
  auto widths = hidden;
  widths.push_back(num_classes);
  for (const auto width : widths) {
    layers_.push_back(register_module(fmt::format("fc{}", layers_.size() + 1), torch::nn::Linear(channels, width)));
    channels = width;
  }
}

torch::Tensor Vgg11::forward(const torch::Tensor& pictures) {
  require_pictures(pictures, in_channels_, "vgg11");
  if (pictures.size(2) < kSmallestPicture || pictures.size(3) < kSmallestPicture) {
    fail(ErrorKind::invalid_argument, "models",
         "vgg11 halves pictures five times, so they must be at least 32x32; these are {}x{}; resize them",
         pictures.size(2), pictures.size(3));
  }
  auto x = pictures;
  for (std::size_t i = 0; i < convolutions_.size(); ++i) {
    x = convolutions_[i](x).relu_();
    if (kConvolutions.at(i).ends_stage) x = torch::max_pool2d(x, 2);
  }
  x = torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
  x = layers_.front()(x);
  for (std::size_t i = 1; i < layers_.size(); ++i) x = layers_[i](x.relu());
  return x;
}

/// Builds the model with torch's default generator: convolutions with He's normal initialization (fan-out), linear
/// layers from N(0, 0.01), biases 0.
std::shared_ptr<Vgg11> vgg11(std::int64_t num_classes, std::int64_t in_channels,
                             const std::vector<std::int64_t>& hidden) {
  auto model = std::make_shared<Vgg11>(num_classes, in_channels, hidden);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->named_parameters()) {
    auto& value = parameter.value();
    if (value.dim() == 4) {
      torch::nn::init::kaiming_normal_(value, 0, torch::kFanOut, torch::kReLU);
    } else if (value.dim() == 2) {
      value.normal_(0, kDeviationOfLinear);
    } else {
      value.zero_();
    }
  }
  return model;
}

}  // namespace

const PictureModel kVgg11{.name = "vgg11",
                          .doc = "eight convolutions and linear layers with the widths model.hidden, from 32x32",
                          .features = 512,
                          .has_hidden = true,
                          .has_stem = false,
                          .build = [](const ModelSpec& spec) -> std::shared_ptr<Network> {
                            return vgg11(spec.num_classes, spec.in_channels, spec.hidden);
                          }};

}  // namespace lockstep::models
