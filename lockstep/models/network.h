// The base class of the models in this folder: a module that maps a batch of pictures to logits.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string_view>

namespace lockstep::models {

/// The common type under which the registry returns all models.
class Network : public torch::nn::Module {
 public:
  /// Pictures [N, C, H, W], floating, to logits [N, num_classes].
  virtual torch::Tensor forward(const torch::Tensor& pictures) = 0;
};

/// Error(invalid_argument) naming `model` and the actual shape unless `pictures` is [N, channels, H, W].
void require_pictures(const torch::Tensor& pictures, std::int64_t channels, std::string_view model);

}  // namespace lockstep::models
