// The registry of models by name, for configuration files. Nothing in models/ depends on ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace lockstep::models {

struct ModelSpec {
  std::string name;  ///< one of model_names()
  std::int64_t num_classes = 10;
  std::int64_t in_channels = 3;                     ///< convolutional models
  std::int64_t in_features = 784;                   ///< mlp: inputs are flattened to [N, in_features]
  std::vector<std::int64_t> hidden = {1024, 1024};  ///< mlp, vgg11: widths of the linear layers
};

/// A module that maps a batch of pictures, float32 [N, C, H, W], to logits, float32 [N, num_classes]. Not thread-safe.
struct Classifier {
  std::shared_ptr<torch::nn::Module> module;
  at::Tensor forward(const at::Tensor& pictures) const;
};

/// Every name `make_classifier` takes: resnet18, resnet34, resnet50, resnet20, mlp, lenet5, vgg11.
std::vector<std::string> model_names();

/// Builds the model with torch's default generator (call torch::manual_seed first for reproducible weights; resnet18,
/// resnet34 and resnet50 then get the very weights that torchvision's get after the same seed).
/// Error(invalid_argument) for an unknown name, with the nearest known one, for sizes below 1, and for sizes that
/// this machine's available memory does not hold.
Classifier make_classifier(const ModelSpec& spec);

/// Table of parameters and buffers with shapes and counts, and totals, for people. A tensor that two modules share is
/// marked and counted once.
std::string summarize(const torch::nn::Module& module);

}  // namespace lockstep::models
