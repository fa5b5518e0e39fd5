// LeNet-5 (LeCun et al. 1998, "Gradient-based learning applied to document recognition") in its present-day form.
#pragma once

#include <lockstep/models/picture_model.h>

#include <memory>

namespace lockstep::models {

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

std::shared_ptr<LeNet5> lenet5(std::int64_t num_classes = 10, std::int64_t in_channels = 1);

inline constexpr PictureModel kLeNet5{.name = "lenet5",
                                      .doc = "two convolutions and three linear layers, for pictures of 28x28 or 32x32",
                                      .features = 84,
                                      .has_hidden = false,
                                      .has_stem = false,
                                      .build = [](const ModelSpec& spec) -> std::shared_ptr<Network> {
                                        return lenet5(spec.num_classes, spec.in_channels);
                                      }};

}  // namespace lockstep::models
