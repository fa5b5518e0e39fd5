// ResNets for ImageNet-sized pictures, with the same weights as torchvision's, and a small one for CIFAR-10 (He et al.
// 2015, arXiv:1512.03385).
#pragma once

#include <lockstep/models/picture_model.h>

#include <cstdint>
#include <memory>

namespace lockstep::models {

/// The first layers of a ResNet.
enum class Stem {
  imagenet,  ///< 7x7 convolution with stride 2, and a max pool with stride 2
  cifar,     ///< 3x3 convolution with stride 1, as MMEngine's ResNet_CIFAR: for pictures of 32x32
};

/// Error(invalid_argument) for a ModelSpec::stem that is not the name of a stem.
Stem stem_of(const ModelSpec& spec);

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

/// One of section 4.2 of the paper: a 3x3 convolution to 16 channels, three stages of three basic blocks at 16, 32 and
/// 64 channels with parameter-free shortcuts, mean over the pixels, one linear layer. Parameters are named conv1, bn1,
/// layer1 .. layer3, fc.
std::shared_ptr<Network> resnet20(std::int64_t num_classes = 10, std::int64_t in_channels = 3);

}  // namespace lockstep::models
