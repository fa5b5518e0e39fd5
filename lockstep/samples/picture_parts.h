// The shipped transforms of pictures by file, and what their steps have in common.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/data/sampler.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/samples/pictures.h>

#include <ATen/ATen.h>

#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep::samples {

/// random_resized_crop, color_jitter, rand_augment, random_erasing.
std::vector<TransformPart> augmentations();
/// mixup, cutmix: they change a batch and its labels.
std::vector<TransformPart> mixing_transforms();

constexpr double kMostSide = 16384;
constexpr double kAnyNumber = 1e30;

std::pair<std::int64_t, std::int64_t> height_and_width(const std::vector<std::int64_t>& size);

/// Whether `normalize` with these options is for values from 0 to 1.
bool normalizes_shares(const PartOptions& normalize);

/// The random numbers of a step.
data::RandomStream stream_for(const Chance& chance, const TransformStep& step);

/// libtorch's generator with a seed of the step: after torch.manual_seed with the same seed, torchvision draws the same
/// numbers.
at::Generator generator_for(const Chance& chance, const TransformStep& step);

/// Random numbers as torchvision draws them: a float32 of [low, high), and a whole number of [0, end).
double draw(at::Generator& generator, double low, double high);
std::int64_t draw_below(at::Generator& generator, std::int64_t end);

/// Replaces the picture of a sample. Error(invalid_argument) where there is none, or it does not have three dimensions.
template <typename Function>
Transform on_pictures(Function function) {
  return [function = std::move(function)](Sample sample, const Chance& chance) {
    const auto found = sample.tensors.find(kPictures);
    if (found == sample.tensors.end() || found->second.dim() != 3) {
      fail(ErrorKind::invalid_argument, "transforms",
           "a transform of pictures needs the field `pictures` of shape [height, width, channels]; {}",
           found == sample.tensors.end()
               ? std::string("the samples of this data set have none")
               : fmt::format("it is [{}] here (add decode for encoded ones)", fmt::join(found->second.sizes(), ", ")));
    }
    found->second = function(found->second, chance);
    return sample;
  };
}

}  // namespace lockstep::samples
