// The transforms turn_tall and resize_to_height, which pads or squeezes pictures of words to a fixed width.
#include <apps/ocr/recognition/word_transforms.h>

#include <lockstep/base/error.h>
#include <lockstep/samples/pictures.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace lockstep::ocr {
namespace {

using samples::Sample;
using samples::Transform;

template <typename Function>
Transform on_pictures(Function function) {
  return [function = std::move(function)](Sample sample, const samples::Chance&) {
    auto& picture = sample.tensors[samples::kPictures];
    if (!picture.defined() || picture.dim() != 3) {
      fail(ErrorKind::invalid_argument, "transforms",
           "it needs the field `pictures` of shape [height, width, channels]");
    }
    picture = function(picture);
    return sample;
  };
}

struct TurnOptions {
  double ratio = 2;
};
void describe(ConfigFields& fields, TurnOptions& options) {
  fields.field("ratio", options.ratio, at_least(1), "of height and width, above which a picture is turned");
}

Transform make_turn_tall(const PartOptions& part, const samples::TransformStep&) {
  return on_pictures([ratio = part.as<TurnOptions>().ratio](const at::Tensor& picture) {
    const auto height = static_cast<double>(picture.size(0)), width = static_cast<double>(picture.size(1));
    return height > ratio * width ? picture.rot90(1, {0, 1}).contiguous() : picture;
  });
}

struct HeightOptions {
  std::vector<std::int64_t> size = {32, 320};
  bool antialias = false;
  std::int64_t fill = 0;
};
void describe(ConfigFields& fields, HeightOptions& options) {
  fields.field("size", options.size, items(2, between(1, 16384)), "[height, width] of the result");
  fields.field("antialias", options.antialias, anything(), "average over what a pixel covers where it gets smaller");
  fields.field("fill", options.fill, between(0, 255), "what is at the right of a narrower picture, of each channel");
}

Transform make_resize_to_height(const PartOptions& part, const samples::TransformStep&) {
  const auto& options = part.as<HeightOptions>();
  return on_pictures([height = options.size[0], width = options.size[1], antialias = options.antialias,
                      fill = options.fill](const at::Tensor& picture) {
    // Rounded up, in whole numbers.
    const auto scaled = (height * picture.size(1) + picture.size(0) - 1) / picture.size(0);
    const auto used = std::clamp<std::int64_t>(scaled, 1, width);
    // At the right; the last dimension is that of channels.
    return at::constant_pad_nd(samples::resized(picture, height, used, antialias), {0, 0, 0, width - used},
                               static_cast<double>(fill));
  });
}

}  // namespace

std::vector<samples::TransformPart> word_transforms() {
  using enum samples::PictureOrder;
  return {{.name = "turn_tall",
           .doc = "a picture much higher than wide is turned by 90 degrees against the clock",
           .options = PartOptions::of(TurnOptions{}),
           .make = make_turn_tall,
           .order = channels_last},
          {.name = "resize_to_height",
           .doc = "bilinear, with the ratio kept; a margin at the right of what is narrower, what is wider is squeezed",
           .options = PartOptions::of(HeightOptions{}),
           .make = make_resize_to_height,
           .order = channels_last}};
}

}  // namespace lockstep::ocr
