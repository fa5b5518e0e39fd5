// Random changes of pictures for training: boxes of random size, colours, RandAugment, erased boxes.
#include <lockstep/samples/picture_parts.h>
#include <lockstep/samples/picture_steps.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>

namespace lockstep::samples {
namespace {

void require_ranges(std::initializer_list<std::pair<const char*, const std::vector<double>&>> ranges) {
  for (const auto& [name, range] : ranges) {
    if (range.size() == 2 && range[0] <= range[1]) continue;
    fail(ErrorKind::config, "transforms", "{} is [least, largest], not [{}]", name, fmt::join(range, ", "));
  }
}

struct ResizedCropOptions {
  std::vector<std::int64_t> size;
  std::vector<double> scale = {0.08, 1};
  std::vector<double> ratio = {3.0 / 4, 4.0 / 3};
  bool antialias = false;
};
void describe(ConfigFields& fields, ResizedCropOptions& options) {
  fields.field("size", options.size, required(between(1, kMostSide)), "a side of the result, or [height, width]");
  fields.field("scale", options.scale, {.low = 0, .high = 1, .low_excluded = true},
               "least and largest share of the picture's area");
  fields.field("ratio", options.ratio, {.low = 0, .high = 1000, .low_excluded = true},
               "least and largest width divided by height");
  fields.field("antialias", options.antialias, anything(), "as resize's");
}

/// The box of Inception's crops: ten tries, then the largest box in the middle whose ratio is within the limits.
Box random_box(std::int64_t height, std::int64_t width, const ResizedCropOptions& options, data::RandomStream stream) {
  const auto area = static_cast<double>(height * width);
  const double low = std::log(options.ratio[0]), high = std::log(options.ratio[1]);
  for (int i = 0; i < 10; ++i) {
    const double target = area * stream.uniform(options.scale[0], options.scale[1]);
    const double ratio = std::exp(stream.uniform(low, high));
    const auto w = std::lrint(std::sqrt(target * ratio)), h = std::lrint(std::sqrt(target / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const auto top = stream.below(static_cast<std::uint64_t>(height - h + 1));
    const auto left = stream.below(static_cast<std::uint64_t>(width - w + 1));
    return {static_cast<std::int64_t>(top), static_cast<std::int64_t>(left), h, w};
  }
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  Box box{.height = height, .width = width};
  if (ratio < options.ratio[0]) {
    box.height = std::clamp<std::int64_t>(std::lrint(static_cast<double>(width) / options.ratio[0]), 1, height);
  } else if (ratio > options.ratio[1]) {
    box.width = std::clamp<std::int64_t>(std::lrint(static_cast<double>(height) * options.ratio[1]), 1, width);
  }
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

Transform make_random_resized_crop(const PartOptions& part, const TransformStep& step) {
  const auto options = part.as<ResizedCropOptions>();
  const auto [height, width] = height_and_width(options.size);
  require_ranges({{"scale", options.scale}, {"ratio", options.ratio}});
  return on_pictures([options, step, height = height, width = width](const at::Tensor& picture, const Chance& chance) {
    const auto box = random_box(picture.size(0), picture.size(1), options, stream_for(chance, step));
    return resized(cropped(picture, box), height, width, options.antialias);
  });
}

struct ColorJitterOptions {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;
};
void describe(ConfigFields& fields, ColorJitterOptions& options) {
  constexpr const char* kFactor = "factor from 1 - this (at least 0) to 1 + this; 0: none";
  fields.field("brightness", options.brightness, between(0, 100), kFactor);
  fields.field("contrast", options.contrast, between(0, 100), kFactor);
  fields.field("saturation", options.saturation, between(0, 100), kFactor);
  fields.field("hue", options.hue, between(0, 0.5), "turn of the colours, up to this share of the circle either way");
}

Transform make_color_jitter(const PartOptions& part, const TransformStep& step) {
  return on_pictures([options = part.as<ColorJitterOptions>(), step](at::Tensor picture, const Chance& chance) {
    auto stream = stream_for(chance, step);
    const auto factor = [&](double most) { return stream.uniform(std::max(0.0, 1 - most), 1 + most); };
    const double brightness = factor(options.brightness), contrast = factor(options.contrast),
                 saturation = factor(options.saturation), hue = stream.uniform(-options.hue, options.hue);
    std::array<int, 4> order{0, 1, 2, 3};  // the order is random, too
    for (std::size_t i = 3; i > 0; --i) std::swap(order[i], order[static_cast<std::size_t>(stream.below(i + 1))]);
    for (const int which : order) {
      if (which == 0 && options.brightness > 0) picture = with_brightness(picture, brightness);
      if (which == 1 && options.contrast > 0) picture = with_contrast(picture, contrast);
      if (which == 2 && options.saturation > 0) picture = with_saturation(picture, saturation);
      if (which == 3 && options.hue > 0) picture = with_hue(picture, hue);
    }
    return picture;
  });
}

struct RandAugmentOptions {
  std::int64_t num_ops = 2;
  std::int64_t magnitude = 9;
  std::int64_t num_magnitude_bins = 31;
  std::string interpolation = "nearest";
  double fill = 0;
};
void describe(ConfigFields& fields, RandAugmentOptions& options) {
  fields.field("num_ops", options.num_ops, between(0, 100), "operations that are drawn for each picture");
  fields.field("magnitude", options.magnitude, between(0, 1000), "strength of all, below num_magnitude_bins");
  fields.field("num_magnitude_bins", options.num_magnitude_bins, between(2, 1000), "number of strengths");
  fields.field("interpolation", options.interpolation, one_of({"nearest", "bilinear"}),
               "of pictures that are turned, sheared or moved");
  fields.field("fill", options.fill, between(0, 255), "value outside of such pictures");
}

// In torchvision's order, by which numbers are drawn.
enum class Operation {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize
};
constexpr std::int64_t kOperations = 14;

/// The operation goes either way.
bool is_signed(Operation operation) { return operation >= Operation::shear_x && operation <= Operation::sharpness; }

double strength_of(Operation operation, const RandAugmentOptions& options, std::int64_t height, std::int64_t width) {
  const auto from_to = [&](double low, double high) {
    return at::linspace(low, high, options.num_magnitude_bins, at::kFloat)[options.magnitude].item<double>();
  };
  constexpr double kMostShift = 150.0 / 331.0;  // of 331 pixels, the size for which the strengths were found
  using enum Operation;
  switch (operation) {
    case shear_x:
    case shear_y: return from_to(0, 0.3);
    case translate_x: return from_to(0, kMostShift * static_cast<double>(width));
    case translate_y: return from_to(0, kMostShift * static_cast<double>(height));
    case rotate: return from_to(0, 30);
    case brightness:
    case color:
    case contrast:
    case sharpness: return from_to(0, 0.9);
    case posterize: {
      const auto bins_a_bit = static_cast<float>(static_cast<double>(options.num_magnitude_bins - 1) / 4);
      return 8 - std::nearbyint(static_cast<float>(options.magnitude) / bins_a_bit);
    }
    case solarize: return from_to(255, 0);
    case identity:
    case auto_contrast:
    case equalize: return 0;
  }
  return 0;
}

at::Tensor changed_by(Operation operation, const at::Tensor& picture, double strength,
                      const RandAugmentOptions& options) {
  const auto through = [&](const AffineMap& map) {
    return warped(picture, map, options.interpolation == "bilinear", options.fill);
  };
  // Shears keep the upper left corner where it is.
  const auto half_height = static_cast<double>(picture.size(0)) / 2,
             half_width = static_cast<double>(picture.size(1)) / 2;
  using enum Operation;
  switch (operation) {
    case identity: return picture;
    case shear_x: return through({1, strength, strength * half_height, 0, 1, 0});
    case shear_y: return through({1, 0, 0, strength, 1, strength * half_width});
    case translate_x: return through({1, 0, -std::trunc(strength), 0, 1, 0});
    case translate_y: return through({1, 0, 0, 0, 1, -std::trunc(strength)});
    case rotate: {
      const double angle = strength * std::numbers::pi / 180, sine = std::sin(angle), cosine = std::cos(angle);
      return through({cosine, -sine, 0, sine, cosine, 0});
    }
    case brightness: return with_brightness(picture, 1 + strength);
    case color: return with_saturation(picture, 1 + strength);
    case contrast: return with_contrast(picture, 1 + strength);
    case sharpness: return with_sharpness(picture, 1 + strength);
    case posterize: return posterized(picture, static_cast<int>(strength));
    case solarize: return solarized(picture, strength);
    case auto_contrast: return with_full_contrast(picture);
    case equalize: return equalized(picture);
  }
  return picture;
}

Transform make_rand_augment(const PartOptions& part, const TransformStep& step) {
  const auto& given = part.as<RandAugmentOptions>();
  if (given.magnitude >= given.num_magnitude_bins) {
    fail(ErrorKind::config, "transforms", "magnitude is {}, and must be below num_magnitude_bins, {}", given.magnitude,
         given.num_magnitude_bins);
  }
  return on_pictures([options = given, step](at::Tensor picture, const Chance& chance) {
    if (picture.scalar_type() != at::kByte) {
      fail(ErrorKind::invalid_argument, "transforms",
           "rand_augment works on bytes, and the picture is {} here; move it in front of rescale, normalize and "
           "type_cast",
           c10::toString(picture.scalar_type()));
    }
    auto generator = generator_for(chance, step);
    for (std::int64_t i = 0; i < options.num_ops; ++i) {
      const auto operation = static_cast<Operation>(draw_below(generator, kOperations));
      auto strength = strength_of(operation, options, picture.size(0), picture.size(1));
      if (is_signed(operation) && draw_below(generator, 2) == 1) strength = -strength;
      picture = changed_by(operation, picture, strength, options);
    }
    return picture;
  });
}

struct ErasingOptions {
  double prob = 0.5;
  std::vector<double> scale = {0.02, 0.33};
  std::vector<double> ratio = {0.3, 3.3};
  std::vector<double> value = {0};
  bool noise = false;
};
void describe(ConfigFields& fields, ErasingOptions& options) {
  fields.field("prob", options.prob, between(0, 1), "share of the pictures that are changed");
  fields.field("scale", options.scale, between(0, 1), "least and largest share of the picture's area");
  fields.field("ratio", options.ratio, {.low = 0, .high = 1000, .low_excluded = true},
               "least and largest height divided by width");
  fields.field("value", options.value, between(-kAnyNumber, kAnyNumber), "new value for all channels, or one for each");
  fields.field("noise", options.noise, anything(), "normal random numbers instead of `value`");
}

/// The box, and a number for each of its values, undefined for Options::value; nullopt: no box of ten tries was smaller
/// than the picture.
std::optional<std::pair<Box, at::Tensor>> erased_box(const ErasingOptions& options, std::int64_t channels,
                                                     std::int64_t height, std::int64_t width,
                                                     at::Generator& generator) {
  const auto limits =
      at::tensor({static_cast<float>(options.ratio[0]), static_cast<float>(options.ratio[1])}, at::kFloat).log();
  for (int i = 0; i < 10; ++i) {
    const double area = static_cast<double>(height * width) * draw(generator, options.scale[0], options.scale[1]);
    const double low = limits[0].item<double>(), high = limits[1].item<double>();
    const auto ratio = at::empty({1}, at::kFloat).uniform_(low, high, generator).exp().item<double>();
    Box box{.height = std::lrint(std::sqrt(area * ratio)), .width = std::lrint(std::sqrt(area / ratio))};
    if (box.height >= height || box.width >= width) continue;
    at::Tensor noise;
    if (options.noise) noise = at::empty({channels, box.height, box.width}, at::kFloat).normal_(0, 1, generator);
    box.top = draw_below(generator, height - box.height + 1);
    box.left = draw_below(generator, width - box.width + 1);
    return std::pair(box, noise);
  }
  return std::nullopt;
}

Transform make_random_erasing(const PartOptions& part, const TransformStep& step) {
  const auto& given = part.as<ErasingOptions>();
  require_ranges({{"scale", given.scale}, {"ratio", given.ratio}});
  return on_pictures([options = given, step](const at::Tensor& picture, const Chance& chance) {
    // CHW, as torchvision's pictures.
    const auto before = step.channels_first ? picture : picture.permute({2, 0, 1});
    const auto channels = before.size(0), count = static_cast<std::int64_t>(options.value.size());
    if (count != 1 && count != channels) {
      fail(ErrorKind::config, "transforms", "value has {} numbers for pictures of {} channels; give one, or {}", count,
           channels, channels);
    }
    if (options.noise && !picture.is_floating_point()) {
      fail(ErrorKind::config, "transforms",
           "noise is for floats, and the picture is {} here; move random_erasing behind "
           "normalize",
           c10::toString(picture.scalar_type()));
    }
    auto generator = generator_for(chance, step);
    if (draw(generator, 0, 1) >= static_cast<float>(options.prob)) return picture;
    const auto erased = erased_box(options, channels, before.size(1), before.size(2), generator);
    if (!erased) return picture;
    const auto& [box, noise] = *erased;
    const auto out = picture.clone();
    const auto place = (step.channels_first ? out : out.permute({2, 0, 1}))
                           .narrow(1, box.top, box.height)
                           .narrow(2, box.left, box.width);
    place.copy_(noise.defined() ? noise : at::tensor(options.value, at::kFloat).view({count, 1, 1}));
    return out;
  });
}

}  // namespace

std::vector<TransformPart> augmentations() {
  using enum PictureOrder;
  return {
      {"random_resized_crop", "a box of random area and ratio, resized", PartOptions::of(ResizedCropOptions{}),
       make_random_resized_crop, true, channels_last},
      {"color_jitter", "random brightness, contrast, saturation and hue, in random order",
       PartOptions::of(ColorJitterOptions{}), make_color_jitter, true, channels_last},
      {"rand_augment", "random operations of one strength on bytes: turns, shears, colours, histograms",
       PartOptions::of(RandAugmentOptions{}), make_rand_augment, true, channels_last},
      {"random_erasing", "a box of random area and ratio gets another value", PartOptions::of(ErasingOptions{}),
       make_random_erasing, true, any},
  };
}

}  // namespace lockstep::samples
