// The picture classifiers: their rows in the registry, and those that are built without it, the multi-layer perceptron
// and the ResNets.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/models/network.h>
#include <lockstep/models/registry.h>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::models {

/// A row of the registry.
struct PictureModel {
  std::string_view name;
  std::string_view doc;   ///< one line
  std::int64_t features;  ///< inputs of the first linear layer; 0: the size of the pictures
  bool has_hidden;        ///< ModelSpec::hidden is used
  bool has_stem;          ///< ModelSpec::stem is used
  std::shared_ptr<Network> (*build)(const ModelSpec& spec);
};

/// The classifiers, each in the file of its model.
extern const PictureModel kResNet18, kResNet34, kResNet50, kResNet20, kMlp, kLeNet5, kVgg11;

/// All of them, in the order of the list.
std::span<const PictureModel* const> picture_models();

/// nullptr: it is none of them.
const PictureModel* find_picture_model(std::string_view name);

/// The key of models with a stem, ModelSpec::stem.
struct StemOptions {
  std::string stem = ModelSpec().stem;
};
void describe(ConfigFields& fields, StemOptions& options);

/// A note for a dry run: the model's stem reduces a picture of that size to one pixel before the mean over the pixels,
/// so that the last convolutions mostly read padding; and a remedy. Empty where more pixels are left, and for a model
/// without a stem.
std::string note_on_stem(const ModelSpec& spec, std::int64_t height, std::int64_t width);

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

/// The first layers of a ResNet.
enum class Stem {
  imagenet,  ///< 7x7 convolution with stride 2, and a max pool with stride 2
  cifar,     ///< 3x3 convolution with stride 1, as MMEngine's ResNet_CIFAR: for pictures of 32x32
};

/// Error(invalid_argument) for a ModelSpec::stem that is not the name of a stem.
Stem stem_of(const ModelSpec& spec);

/// ResNets for ImageNet-sized pictures (He et al. 2015, arXiv:1512.03385), with the same weights as torchvision's.
///
/// A stem, four stages, mean over the pixels, one linear layer. Takes pictures of any size from 1x1; a picture of 32x32
/// is one pixel in the last stage, with the stem `cifar` 4x4. Names and shapes of parameters and buffers are
/// torchvision's, and after the same torch::manual_seed their values are, too. With the stem `cifar`, the shape of
/// conv1.weight differs.
std::shared_ptr<Network> resnet18(std::int64_t num_classes = 1000, std::int64_t in_channels = 3,
                                  Stem stem = Stem::imagenet);
std::shared_ptr<Network> resnet34(std::int64_t num_classes = 1000, std::int64_t in_channels = 3,
                                  Stem stem = Stem::imagenet);
std::shared_ptr<Network> resnet50(std::int64_t num_classes = 1000, std::int64_t in_channels = 3,
                                  Stem stem = Stem::imagenet);

/// A small one for CIFAR-10, of section 4.2 of the paper: a 3x3 convolution to 16 channels, three stages of three basic
/// blocks at 16, 32 and 64 channels with parameter-free shortcuts, mean over the pixels, one linear layer. Parameters
/// are named conv1, bn1, layer1 .. layer3, fc.
std::shared_ptr<Network> resnet20(std::int64_t num_classes = 10, std::int64_t in_channels = 3);

}  // namespace lockstep::models
