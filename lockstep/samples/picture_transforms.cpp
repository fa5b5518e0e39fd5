// The list of picture transforms; those of size, place and values, with their options and compiled forms.
#include <lockstep/data/picture_plan.h>
#include <lockstep/samples/picture_parts.h>
#include <lockstep/samples/picture_steps.h>
#include <lockstep/samples/pictures.h>

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace lockstep::samples {
namespace {

double uniform_for(const Chance& chance, const TransformStep& step) {
  return step.position ? stream_for(chance, step).uniform() : chance.uniform(step.name);
}

Margins margins_of(const std::vector<std::int64_t>& padding) {
  switch (padding.size()) {
    case 0: return {};
    case 1: return {padding[0], padding[0], padding[0], padding[0]};
    case 2: return {padding[0], padding[1], padding[0], padding[1]};
    case 4: return {padding[0], padding[1], padding[2], padding[3]};
    default:
      fail(ErrorKind::config, "transforms",
           "padding is one number, [left/right, top/bottom] or [left, top, right, bottom], not {} numbers",
           padding.size());
  }
}

struct DecodeOptionsOf {
  PictureOptions picture;
};
void describe(ConfigFields& fields, DecodeOptionsOf& options) {
  fields.field("color", options.picture.color, one_of({"rgb", "grey"}), "channels: three, or one");
  fields.field("orientation", options.picture.orientation, anything(), "turn the picture by its EXIF orientation");
}

Transform make_decode(const PartOptions& options, const TransformStep&) {
  const auto decoding = decoding_of(options.as<DecodeOptionsOf>().picture);
  return [decoding](Sample sample, const Chance& chance) {
    auto& field = sample.tensors[kPictures];
    if (!field.defined() || field.dim() == 3) return sample;  // decoded by its data set
    const auto name = sample.texts.find(kNames);
    const auto bytes = field.to(at::kByte).contiguous();
    field = to_tensor(
        data::decode_picture({bytes.data_ptr<std::uint8_t>(), static_cast<std::size_t>(bytes.numel())}, decoding,
                             name == sample.texts.end() ? fmt::format("sample {}", chance.index()) : name->second));
    return sample;
  };
}

struct ResizeOptions {
  std::vector<std::int64_t> size;
  bool antialias = false;
};
void describe(ConfigFields& fields, ResizeOptions& options) {
  fields.field("size", options.size, required(between(1, kMostSide)), "the shorter side, or [height, width]");
  fields.field("antialias", options.antialias, anything(), "average over what a pixel covers where it gets smaller");
}

Box box_of(const ResizeOptions& options, std::int64_t height, std::int64_t width) {
  const auto [first, second] = height_and_width(options.size);
  if (options.size.size() == 2) return {.height = first, .width = second};
  return box_with_shorter_side(height, width, first);
}

Transform make_resize(const PartOptions& part, const TransformStep& step) {
  const auto options = part.as<ResizeOptions>();
  height_and_width(options.size);
  return on_pictures([options, in_memory = step.position.has_value()](const at::Tensor& picture, const Chance&) {
    const auto box = box_of(options, picture.size(0), picture.size(1));
    const auto longer = static_cast<double>(std::max(box.height, box.width));
    if (in_memory && longer > kMostSide) {
      fail(ErrorKind::data, "transforms", "resize to {} would make a side of {}; at most {} are allowed",
           options.size.front(), longer, kMostSide);
    }
    if (box.height * box.width > data::kMostPixels) {
      fail(ErrorKind::data, "transforms", "resize would make a picture of {} x {} pixels; at most {} are made",
           box.width, box.height, data::kMostPixels);
    }
    if (in_memory && !options.antialias) return resized_half_up(picture, box.height, box.width);
    return resized(picture, box.height, box.width, options.antialias);
  });
}

bool compile_resize(const PartOptions& part, const TransformStep&, data::PicturePlan& plan) {
  const auto& options = part.as<ResizeOptions>();
  const auto box = box_of(options, plan.output().height, plan.output().width);
  return !options.antialias && plan.add_resize(static_cast<int>(box.height), static_cast<int>(box.width));
}

struct SizeOptions {
  std::vector<std::int64_t> size;
};
void describe(ConfigFields& fields, SizeOptions& options) {
  fields.field("size", options.size, required(between(1, kMostSide)), "a side, or [height, width]");
}

Transform make_center_crop(const PartOptions& part, const TransformStep&) {
  const auto [height, width] = height_and_width(part.as<SizeOptions>().size);
  return on_pictures([height = height, width = width](const at::Tensor& picture, const Chance&) {
    return center_cropped(picture, height, width);
  });
}

struct RandomCropOptions {
  std::vector<std::int64_t> size;
  std::vector<std::int64_t> padding;
  bool pad_if_needed = false;
  double fill = 0;
};
void describe(ConfigFields& fields, RandomCropOptions& options) {
  fields.field("size", options.size, required(between(1, kMostSide)), "a side, or [height, width]");
  fields.field("padding", options.padding, between(0, kMostSide),
               "before: on all sides, [left/right, top/bottom] or [left, top, right, bottom]");
  fields.field("pad_if_needed", options.pad_if_needed, anything(), "pad a smaller picture on both sides");
  fields.field("fill", options.fill, between(0, 255), "value of what is padded");
}

Transform make_random_crop(const PartOptions& part, const TransformStep& step) {
  const auto options = part.as<RandomCropOptions>();
  const auto margins = margins_of(options.padding);
  height_and_width(options.size);
  return on_pictures([options, margins, step](const at::Tensor& picture, const Chance& chance) {
    const auto [height, width] = height_and_width(options.size);
    auto large = with_margins(picture, margins, options.fill);
    if (options.pad_if_needed) {
      const auto rows = std::max<std::int64_t>(0, height - large.size(0));
      const auto columns = std::max<std::int64_t>(0, width - large.size(1));
      large = with_margins(large, {columns, rows, columns, rows}, options.fill);
    }
    if (large.size(0) < height || large.size(1) < width) {
      fail(ErrorKind::data, "transforms",
           "random_crop cannot cut {} x {} out of a picture of {} x {} (width x height, with padding); resize before, "
           "or set pad_if_needed",
           width, height, large.size(1), large.size(0));
    }
    auto stream = stream_for(chance, step);
    const auto top = stream.below(static_cast<std::uint64_t>(large.size(0) - height + 1));
    const auto left = stream.below(static_cast<std::uint64_t>(large.size(1) - width + 1));
    return cropped(large, {static_cast<std::int64_t>(top), static_cast<std::int64_t>(left), height, width});
  });
}

bool compile_random_crop(const PartOptions& part, const TransformStep& step, data::PicturePlan& plan) {
  const auto& options = part.as<RandomCropOptions>();
  if (options.pad_if_needed || options.fill != 0) return false;
  const auto [height, width] = height_and_width(options.size);
  const auto margins = margins_of(options.padding);
  return plan.add_random_crop({.height = static_cast<int>(height),
                               .width = static_cast<int>(width),
                               .left = static_cast<int>(margins.left),
                               .top = static_cast<int>(margins.top),
                               .right = static_cast<int>(margins.right),
                               .bottom = static_cast<int>(margins.bottom)},
                              step.position.value());
}

struct FlipOptions {
  double prob = 0.5;
};
void describe(ConfigFields& fields, FlipOptions& options) {
  fields.field("prob", options.prob, between(0, 1), "share of the pictures that are mirrored");
}

Transform make_random_horizontal_flip(const PartOptions& part, const TransformStep& step) {
  return on_pictures([prob = part.as<FlipOptions>().prob, step](const at::Tensor& picture, const Chance& chance) {
    return uniform_for(chance, step) < prob ? mirrored(picture) : picture;
  });
}

bool compile_random_horizontal_flip(const PartOptions& part, const TransformStep& step, data::PicturePlan& plan) {
  return plan.add_random_flip(part.as<FlipOptions>().prob, step.position.value());
}

struct PadOptions {
  std::vector<std::int64_t> padding;
  double fill = 0;
};
void describe(ConfigFields& fields, PadOptions& options) {
  fields.field("padding", options.padding, required(between(0, kMostSide)),
               "on all sides, [left/right, top/bottom] or [left, top, right, bottom]");
  fields.field("fill", options.fill, between(0, 255), "value of what is padded");
}

Transform make_pad(const PartOptions& part, const TransformStep&) {
  return on_pictures([margins = margins_of(part.as<PadOptions>().padding), fill = part.as<PadOptions>().fill](
                         const at::Tensor& picture, const Chance&) { return with_margins(picture, margins, fill); });
}

struct NormalizeOptions {
  std::vector<double> mean;
  std::vector<double> std;
};
void describe(ConfigFields& fields, NormalizeOptions& options) {
  fields.field("mean", options.mean, required(between(-kAnyNumber, kAnyNumber)), "for all channels, or one for each");
  fields.field("std", options.std, required(between(1e-30, kAnyNumber)), "for all channels, or one for each");
}

Transform make_normalize(const PartOptions& part, const TransformStep& step) {
  const auto& options = part.as<NormalizeOptions>();
  return on_pictures([options, first = step.channels_first](const at::Tensor& picture, const Chance&) {
    const auto channels = picture.size(first ? 0 : 2);
    const auto of_channels = [&](const std::vector<double>& values, const char* name) {
      const auto count = static_cast<std::int64_t>(values.size());
      if (count != 1 && count != channels) {
        fail(ErrorKind::config, "transforms", "normalize has {} {} for pictures of {} channels; give one, or {}", count,
             name, channels, channels);
      }
      const auto tensor = at::tensor(values, at::kFloat);
      return first ? tensor.view({count, 1, 1}) : tensor;
    };
    return (picture.to(at::kFloat) - of_channels(options.mean, "mean")).div_(of_channels(options.std, "std"));
  });
}

bool compile_normalize(const PartOptions& part, const TransformStep&, data::PicturePlan& plan) {
  const auto& options = part.as<NormalizeOptions>();
  const auto floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  return plan.add_normalize(floats(options.mean), floats(options.std));
}

struct RescaleOptions {
  double scale = 1;
  double shift = 0;
};
void describe(ConfigFields& fields, RescaleOptions& options) {
  fields.field("scale", options.scale, required(between(-kAnyNumber, kAnyNumber)), "factor");
  fields.field("shift", options.shift, between(-kAnyNumber, kAnyNumber), "added behind it");
}

Transform make_rescale(const PartOptions& part, const TransformStep&) {
  return on_pictures([options = part.as<RescaleOptions>()](const at::Tensor& picture, const Chance&) {
    return picture.to(at::kFloat).mul_(options.scale).add_(options.shift);
  });
}

bool compile_rescale(const PartOptions& part, const TransformStep&, data::PicturePlan& plan) {
  const auto& options = part.as<RescaleOptions>();
  return plan.add_rescale(static_cast<float>(options.scale), static_cast<float>(options.shift));
}

struct TypeOptions {
  std::string type;
};
void describe(ConfigFields& fields, TypeOptions& options) {
  fields.field("type", options.type, required(one_of({"float32", "int32"})), "int32: without the fraction");
}

Transform make_type_cast(const PartOptions& part, const TransformStep&) {
  const auto type = part.as<TypeOptions>().type == "int32" ? at::kInt : at::kFloat;
  return on_pictures([type](const at::Tensor& picture, const Chance&) { return picture.to(type); });
}

bool compile_type_cast(const PartOptions& part, const TransformStep&, data::PicturePlan& plan) {
  return part.as<TypeOptions>().type == "int32" ? plan.add_truncation() : plan.add_float();
}

Transform make_hwc2chw(const PartOptions&, const TransformStep&) {
  return on_pictures([](const at::Tensor& picture, const Chance&) { return picture.permute({2, 0, 1}).contiguous(); });
}

Transform make_to_tensor(const PartOptions&, const TransformStep&) {
  return on_pictures([](const at::Tensor& picture, const Chance&) {
    const auto planes = picture.permute({2, 0, 1}).contiguous();
    return picture.is_floating_point() ? planes : planes.to(at::kFloat).div_(255);
  });
}

// A plan always ends with CHW.
bool compile_hwc2chw(const PartOptions&, const TransformStep&, data::PicturePlan&) { return true; }

bool compile_to_tensor(const PartOptions&, const TransformStep&, data::PicturePlan& plan) {
  return !plan.changes_values() && plan.add_division(255);
}

}  // namespace

std::pair<std::int64_t, std::int64_t> height_and_width(const std::vector<std::int64_t>& size) {
  if (size.empty() || size.size() > 2) {
    fail(ErrorKind::config, "transforms", "size is one number, or [height, width], not {} numbers", size.size());
  }
  return {size.front(), size.back()};
}

bool normalizes_shares(const PartOptions& normalize) {
  const auto& [mean, std] = normalize.as<NormalizeOptions>();
  const auto is_share = [](double value) { return std::abs(value) <= 1; };
  return std::ranges::all_of(mean, is_share) && std::ranges::all_of(std, is_share);
}

data::RandomStream stream_for(const Chance& chance, const TransformStep& step) {
  if (step.position) return data::step_stream({chance.run_seed(), chance.epoch(), chance.index()}, *step.position);
  return chance.stream(step.name);
}

at::Generator generator_for(const Chance& chance, const TransformStep& step) {
  return at::detail::createCPUGenerator(step.position ? stream_for(chance, step).next() : chance.seed(step.name));
}

double draw(at::Generator& generator, double low, double high) {
  return at::empty({1}, at::kFloat).uniform_(low, high, generator).item<double>();
}

std::int64_t draw_below(at::Generator& generator, std::int64_t end) {
  return at::randint(end, {1}, generator, at::kLong).item<std::int64_t>();
}

std::vector<TransformPart> shipped_transforms() {
  using enum PictureOrder;
  std::vector<TransformPart> parts{
      {"decode", "a picture from the bytes of its file, where the data set has not done it",
       PartOptions::of(DecodeOptionsOf{}), make_decode, false, channels_last},
      {"resize", "bilinear", PartOptions::of(ResizeOptions{}), make_resize, false, channels_last, compile_resize},
      {"center_crop", "the middle; smaller pictures get zeros around", PartOptions::of(SizeOptions{}), make_center_crop,
       false, channels_last},
      {"random_crop", "a box of a fixed size at a random place", PartOptions::of(RandomCropOptions{}), make_random_crop,
       true, channels_last, compile_random_crop},
      {"random_horizontal_flip", "mirrored left to right by chance", PartOptions::of(FlipOptions{}),
       make_random_horizontal_flip, true, channels_last, compile_random_horizontal_flip},
      {"pad", "filled up on each side", PartOptions::of(PadOptions{}), make_pad, false, channels_last},
      {"to_tensor",
       "bytes 0 to 255 of HWC become floats 0 to 1 of CHW",
       {},
       make_to_tensor,
       false,
       makes_channels_first,
       compile_to_tensor},
      {"hwc2chw", "HWC becomes CHW", {}, make_hwc2chw, false, makes_channels_first, compile_hwc2chw},
      {"rescale", "value * scale + shift, as floats", PartOptions::of(RescaleOptions{}), make_rescale, false, any,
       compile_rescale},
      {"normalize", "(value - mean) / std of each channel, as floats", PartOptions::of(NormalizeOptions{}),
       make_normalize, false, any, compile_normalize},
      {"type_cast", "another type of numbers", PartOptions::of(TypeOptions{}), make_type_cast, false, any,
       compile_type_cast},
  };
  for (auto more : {augmentations(), mixing_transforms()}) std::ranges::move(more, std::back_inserter(parts));
  return parts;
}

}  // namespace lockstep::samples
