// The base class of the models in this room: a module from a batch of pictures to logits.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string_view>

namespace lockstep::models {

/// Base of all models, so that a registry can hand them out under one type.
class Network : public torch::nn::Module {
 public:
  /// Pictures [N, C, H, W], floating, to logits [N, num_classes].
  virtual torch::Tensor forward(const torch::Tensor& pictures) = 0;
};

/// Error(invalid_argument) naming `model` and the actual shape unless `pictures` is [N, channels, H, W].
void require_pictures(const torch::Tensor& pictures, std::int64_t channels, std::string_view model);

}  // namespace lockstep::models
