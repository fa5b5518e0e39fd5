// The registry of models by name, for configuration files. Models do not depend on ranks or groups.
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
  /// resnet18, resnet34, resnet50: their first layers. imagenet: a 7x7 convolution and a max pool, which quarter the
  /// picture; cifar: a 3x3 convolution, which leaves its size.
  std::string stem = "imagenet";
};

/// A module that maps a batch of pictures, float32 [N, C, H, W], to logits, float32 [N, num_classes]. Not thread-safe.
struct Classifier {
  std::shared_ptr<torch::nn::Module> module;
  at::Tensor forward(const at::Tensor& pictures) const;
};

/// The logits of a module of make_classifier, or another Network (network.h). Error(invalid_argument) for any other.
at::Tensor classify(torch::nn::Module& module, const at::Tensor& pictures);

/// The names that `make_classifier` accepts: resnet18, resnet34, resnet50, resnet20, mlp, lenet5, vgg11.
std::vector<std::string> model_names();

/// Builds the model with torch's default generator (call torch::manual_seed first for reproducible weights; resnet18,
/// resnet34 and resnet50 then get exactly the weights of torchvision's models after the same seed).
/// Error(invalid_argument) for an unknown name, with the nearest known name; for sizes below 1; and for sizes that do
/// not fit into this machine's available memory.
Classifier make_classifier(const ModelSpec& spec);

/// A printable table of parameters and buffers with shapes, counts and totals. A tensor that two modules share is
/// marked and counted once.
std::string summarize(const torch::nn::Module& module);

}  // namespace lockstep::models
