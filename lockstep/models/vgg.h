// VGG11: convolutions followed by wide linear layers, which hold most of the parameters (Simonyan and Zisserman 2014,
// arXiv:1409.1556, configuration A).
#pragma once

#include <lockstep/models/picture_model.h>

#include <memory>
#include <vector>

namespace lockstep::models {

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

/// Builds the model with torch's default generator: convolutions with He's normal initialization (fan-out), linear
/// layers from N(0, 0.01), biases 0. Error(invalid_argument) for sizes below 1.
std::shared_ptr<Vgg11> vgg11(std::int64_t num_classes, std::int64_t in_channels,
                             const std::vector<std::int64_t>& hidden);

inline constexpr PictureModel kVgg11{
    .name = "vgg11",
    .doc = "eight convolutions and linear layers with the widths model.hidden, from 32x32",
    .features = 512,
    .has_hidden = true,
    .has_stem = false,
    .build = [](const ModelSpec& spec) -> std::shared_ptr<Network> {
      return vgg11(spec.num_classes, spec.in_channels, spec.hidden);
    }};

}  // namespace lockstep::models
