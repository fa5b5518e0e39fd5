// The base class of classifiers of pictures: a module that maps a batch of pictures to logits. Not thread-safe.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string_view>

namespace lockstep::models {

/// The common type of all classifiers that a configuration can name, also those of users (ModelPart::classifier).
class Network : public torch::nn::Module {
 public:
  /// Pictures [N, C, H, W], floating, to logits [N, num_classes].
  virtual at::Tensor forward(const at::Tensor& pictures) = 0;
};

/// Error(invalid_argument) naming `model` and the actual shape unless `pictures` is [N, channels, H, W].
void require_pictures(const at::Tensor& pictures, std::int64_t channels, std::string_view model);

}  // namespace lockstep::models
