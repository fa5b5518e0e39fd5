// The multi-layer perceptron.
#pragma once

#include <lockstep/models/network.h>

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace lockstep::models {

/// Flattens its input and applies Linear layers with ReLU between them. Parameters are named fc1, fc2, ...
class Mlp : public Network {
 public:
  /// `hidden` may be empty: then the network is one linear layer.
  Mlp(std::int64_t in_features, const std::vector<std::int64_t>& hidden, std::int64_t num_classes);

  /// Input: [N, ...] with in_features values per sample; Error(invalid_argument) for any other number.
  torch::Tensor forward(const torch::Tensor& pictures) override;

 private:
  std::int64_t in_features_;
  std::vector<torch::nn::Linear> layers_;
};

}  // namespace lockstep::models
