// Adapters from configured transforms to the geometry and the target maps of text, with random numbers by step name.
#include <apps/ocr/detection/text_transforms.h>

#include <apps/ocr/detection/picture_geometry.h>
#include <apps/ocr/detection/word_tensors.h>
#include <lockstep/base/error.h>
#include <lockstep/samples/pictures.h>

#include <ATen/ATen.h>

#include <fmt/ranges.h>

#include <opencv2/core.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace lockstep::ocr {
namespace {

using samples::Chance;
using samples::Sample;
using samples::Transform;
using samples::TransformStep;

constexpr double kMostSide = 16384;

at::Tensor& picture_in(Sample& sample) {
  const auto found = sample.tensors.find(samples::kPictures);
  if (found != sample.tensors.end() && found->second.dim() == 3 && found->second.size(2) == 3) return found->second;
  fail(ErrorKind::invalid_argument, "transforms",
       "a transform of text needs the field `pictures` of shape [height, width, 3]; {}",
       found == sample.tensors.end() ? std::string("the samples of this data set have none")
                                     : fmt::format("it is [{}] here", fmt::join(found->second.sizes(), ", ")));
}

/// nullopt for a picture to predict. Error(config) for a picture with a class instead of words.
std::optional<Words> words_in(const Sample& sample) {
  auto words = words_of(sample);
  if (!words && sample.tensors.contains(samples::kLabels)) {
    fail(ErrorKind::config, "transforms",
         "a transform of text moves the words of a picture, and this data set has one class for each picture and no "
         "words; use transforms without text_, or a data set such as data.name=text_boxes");
  }
  return words;
}

/// Changes picture and words of a sample; pictures to predict have no words.
template <typename Change>
Transform on_text(Change change) {
  return [change = std::move(change)](Sample sample, const Chance& chance) {
    auto& pixels = picture_in(sample);
    pixels = pixels.contiguous();
    auto words = words_in(sample);
    TextPicture picture{to_mat(pixels), words.value_or(Words{})};
    change(picture, sample, chance);
    // A picture that does not change stays in the memory of its tensor.
    if (picture.pixels.data != pixels.data_ptr()) pixels = to_tensor(picture.pixels);
    if (words) set_words(sample, picture.words);
    return sample;
  };
}

struct FlipOptions {
  double prob = 0.5;
};
void describe(ConfigFields& fields, FlipOptions& options) {
  fields.field("prob", options.prob, between(0, 1), "share of the pictures that are mirrored");
}

Transform make_flip(const PartOptions& part, const TransformStep& step) {
  return on_text([prob = part.as<FlipOptions>().prob, step](TextPicture& picture, Sample&, const Chance& chance) {
    if (chance.uniform(step.name) < prob) mirror(picture);
  });
}

struct RotateOptions {
  std::vector<std::int64_t> degrees = {-10, 10};
};
void describe(ConfigFields& fields, RotateOptions& options) {
  fields.field("degrees", options.degrees, items(2, between(-360, 360)),
               "[least, end]: whole degrees counter-clockwise, the end excluded");
}

Transform make_rotate(const PartOptions& part, const TransformStep& step) {
  const auto range = part.as<RotateOptions>().degrees;
  if (range[0] >= range[1]) {
    fail(ErrorKind::config, "transforms", "degrees is [least, end] with least < end, not [{}]", fmt::join(range, ", "));
  }
  return on_text([range, step](TextPicture& picture, Sample&, const Chance& chance) {
    const auto steps = static_cast<std::uint64_t>(range[1] - range[0]);
    rotate(picture, static_cast<double>(range[0] + static_cast<std::int64_t>(chance.stream(step.name).below(steps))));
  });
}

struct ScaleOptions {
  std::vector<double> range = {0.5, 3};
};
void describe(ConfigFields& fields, ScaleOptions& options) {
  fields.field("range", options.range, items(2, between(0.01, 100)), "least and largest factor of both sides");
}

Transform make_scale(const PartOptions& part, const TransformStep& step) {
  const auto range = part.as<ScaleOptions>().range;
  if (range[0] > range[1]) {
    fail(ErrorKind::config, "transforms", "range is [least, largest], not [{}]", fmt::join(range, ", "));
  }
  return on_text([range, step](TextPicture& picture, Sample&, const Chance& chance) {
    scale(picture, chance.stream(step.name).uniform(range[0], range[1]));
  });
}

struct CropPartOptions {
  std::vector<std::int64_t> size = {640, 640};
  std::int64_t tries = 10;
  double min_side_ratio = 0.1;
  double min_area = 1;
  bool keep_scale = false;
};
void describe(ConfigFields& fields, CropPartOptions& options) {
  fields.field("size", options.size, between(1, kMostSide), "a side of the result, or [height, width]");
  fields.field("tries", options.tries, between(1, 1000), "windows that are drawn before the whole picture is taken");
  fields.field("min_side_ratio", options.min_side_ratio, between(0, 1),
               "least side of a window to that of the picture");
  fields.field("min_area", options.min_area, at_least(0),
               "words with fewer pixels inside are ignored, neither right nor wrong");
  fields.field("keep_scale", options.keep_scale, anything(),
               "windows have the fixed size, and only their place is drawn; else their size is drawn, and they are "
               "scaled");
}

Transform make_crop(const PartOptions& part, const TransformStep& step) {
  const auto& given = part.as<CropPartOptions>();
  if (given.size.empty() || given.size.size() > 2) {
    fail(ErrorKind::config, "transforms", "size is one number, or [height, width], not {} numbers", given.size.size());
  }
  const CropOptions options{.height = static_cast<int>(given.size.front()),
                            .width = static_cast<int>(given.size.back()),
                            .tries = static_cast<int>(given.tries),
                            .min_side_ratio = given.min_side_ratio,
                            .keep_scale = given.keep_scale};
  return on_text([options, min_area = given.min_area, step](TextPicture& picture, Sample&, const Chance& chance) {
    auto stream = chance.stream(step.name);
    const auto window = crop_window(picture, options, [&stream](std::uint64_t below) { return stream.below(below); });
    crop(picture, window, options, min_area);
  });
}

struct ResizeOptions {
  std::vector<std::int64_t> size;
  std::int64_t longest = 0;
  std::int64_t multiple = 32;
  bool keep_ratio = false;
};
void describe(ConfigFields& fields, ResizeOptions& options) {
  fields.field("size", options.size, between(1, kMostSide),
               "[height, width] of the result, whatever the picture's ratio; empty: as `longest` says");
  fields.field("keep_ratio", options.keep_ratio, anything(),
               "with size: the picture keeps its ratio, and is filled up with black at the right and below");
  fields.field("longest", options.longest, between(0, kMostSide),
               "without size: pictures are made smaller until their longer side is this; 0: they are not");
  fields.field("multiple", options.multiple, between(1, 1024),
               "without size: both sides are rounded to a multiple of this, at least one");
}

std::pair<int, int> size_for(const TextPicture& picture, const ResizeOptions& options) {
  if (options.size.size() == 2) return {static_cast<int>(options.size[0]), static_cast<int>(options.size[1])};
  const double longer = std::max(picture.pixels.rows, picture.pixels.cols);
  const auto longest = static_cast<double>(options.longest);
  const double factor = longest > 0 && longer > longest ? longest / longer : 1;
  const auto unit = static_cast<double>(options.multiple);
  const auto side = [&](int pixels) {
    return static_cast<int>(std::max(1.0, std::nearbyint(pixels * factor / unit)) * unit);
  };
  return {side(picture.pixels.rows), side(picture.pixels.cols)};
}

Transform make_resize(const PartOptions& part, const TransformStep&) {
  const auto options = part.as<ResizeOptions>();
  if (!options.size.empty() && options.size.size() != 2) {
    fail(ErrorKind::config, "transforms", "size is [height, width], not {} numbers", options.size.size());
  }
  return on_text([options](TextPicture& picture, Sample& sample, const Chance&) {
    const double height = picture.pixels.rows, width = picture.pixels.cols;
    auto [new_height, new_width] = size_for(picture, options);
    if (options.keep_ratio && !options.size.empty()) {
      const auto full_height = new_height, full_width = new_width;
      const double factor = std::min(full_height / height, full_width / width);
      new_height = std::clamp(static_cast<int>(std::nearbyint(height * factor)), 1, full_height);
      new_width = std::clamp(static_cast<int>(std::nearbyint(width * factor)), 1, full_width);
      stretch(picture, new_height, new_width);
      const int below = full_height - new_height, right = full_width - new_width;
      if (below + right > 0) {
        cv::Mat filled;
        cv::copyMakeBorder(picture.pixels, filled, 0, below, 0, right, cv::BORDER_CONSTANT);
        picture.pixels = filled;
      }
    } else {
      stretch(picture, new_height, new_width);
    }
    const double y = new_height / height, x = new_width / width;
    const auto before = sample.tensors.find(kFrame);
    sample.tensors[kFrame] = before == sample.tensors.end()
                                 ? at::tensor({height, width, y, x}, at::kDouble)
                                 : before->second * at::tensor({1.0, 1.0, y, x}, at::kDouble);
  });
}

Transform make_shrink_map(const PartOptions& part, const TransformStep&) {
  return [options = part.as<ShrinkOptions>()](Sample sample, const Chance&) {
    auto words = words_in(sample);
    if (!words) return sample;
    const auto& picture = picture_in(sample);
    const auto map = shrink_map(*words, static_cast<int>(picture.size(0)), static_cast<int>(picture.size(1)), options);
    set_words(sample, *words);
    sample.tensors.insert_or_assign(kTextMap, to_tensor(map.text));
    sample.tensors.insert_or_assign(kTextMask, to_tensor(map.mask));
    return sample;
  };
}

Transform make_border_map(const PartOptions& part, const TransformStep&) {
  return [options = part.as<BorderOptions>()](Sample sample, const Chance&) {
    const auto words = words_in(sample);
    if (!words) return sample;
    const auto& picture = picture_in(sample);
    const auto map = border_map(*words, static_cast<int>(picture.size(0)), static_cast<int>(picture.size(1)), options);
    sample.tensors.insert_or_assign(kThresholdMap, to_tensor(map.threshold));
    sample.tensors.insert_or_assign(kThresholdMask, to_tensor(map.mask));
    return sample;
  };
}

}  // namespace

void describe(ConfigFields& fields, ShrinkOptions& options) {
  fields.field("min_text_size", options.min_text_size, at_least(0),
               "words whose upright box has a shorter side are ignored");
  fields.field("shrink_ratio", options.shrink_ratio, from_to_below(0, 1), "the less, the smaller are the shrunk words");
}

void describe(ConfigFields& fields, BorderOptions& options) {
  fields.field("shrink_ratio", options.shrink_ratio, from_to_below(0, 1), "as that of text_shrink_map");
  fields.field("low", options.low, between(0, 1), "threshold far from the borders of words");
  fields.field("high", options.high, between(0, 1), "threshold on them");
}

std::vector<samples::TransformPart> text_transforms() {
  using enum samples::PictureOrder;
  return {
      {"text_random_flip", "picture and words mirrored left to right by chance", PartOptions::of(FlipOptions{}),
       make_flip, true, channels_last},
      {"text_random_rotate", "picture and words turned by a random angle", PartOptions::of(RotateOptions{}),
       make_rotate, true, channels_last},
      {"text_random_scale", "picture and words enlarged by a random factor", PartOptions::of(ScaleOptions{}),
       make_scale, true, channels_last},
      {"text_random_crop", "a random window that cuts through no word, scaled to a fixed size",
       PartOptions::of(CropPartOptions{}), make_crop, true, channels_last},
      {"text_resize", "picture and words to a fixed size, or to sides of a multiple", PartOptions::of(ResizeOptions{}),
       make_resize, false, channels_last},
      {"text_shrink_map", "the map of shrunk words, and where pixels count", PartOptions::of(ShrinkOptions{}),
       make_shrink_map, false, channels_last},
      {"text_border_map", "the threshold map, high on the borders of words", PartOptions::of(BorderOptions{}),
       make_border_map, false, channels_last},
  };
}

}  // namespace lockstep::ocr
