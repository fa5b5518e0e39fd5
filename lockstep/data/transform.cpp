// The table of transforms by name, and their builders, which check arguments and follow the picture's shape and type.
#include <fmt/ranges.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/data/transform.h>
#include <lockstep/data/transform_arguments.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace lockstep::data {
namespace {

constexpr NumberRange kSide{1, 16384};
constexpr NumberRange kPadding{0, 16384};
constexpr NumberRange kAnyNumber{-1e30, 1e30};
constexpr NumberRange kPositive{1e-30, 1e30};

[[noreturn]] void refuse(const TransformSpec& spec, const std::string& message) {
  throw Error(ErrorKind::config, "transforms", message, spec.position);
}

void require_hwc(const TransformSpec& spec, const PictureState& state) {
  if (state.channels_first) {
    refuse(spec, fmt::format("{} works on HWC pictures, but hwc2chw is before it; move hwc2chw to the end", spec.name));
  }
}

// Each builder reads its arguments and updates the state to the transform's output.

Transform build_random_crop(const TransformSpec& spec, const TransformArguments& arguments, PictureState& state) {
  require_hwc(spec, state);
  const auto size = arguments.integers("size", kSide, {2}, "a list [height, width]");
  const auto pads = arguments.integers("padding", kPadding, {2, 4},
                                       "a list [left/right, top/bottom] or [left, top, right, bottom]", 0);
  RandomCrop crop{.height = size.front(), .width = size.back()};
  crop.left = pads[0];
  crop.top = pads.size() == 1 ? pads[0] : pads[1];
  crop.right = pads.size() == 4 ? pads[2] : crop.left;
  crop.bottom = pads.size() == 4 ? pads[3] : crop.top;
  const int height = state.shape.height + crop.top + crop.bottom;
  const int width = state.shape.width + crop.left + crop.right;
  if (crop.height > height || crop.width > width) {
    refuse(spec,
           fmt::format("random_crop cannot cut {}x{} out of a picture of {}x{} (with padding); raise padding or lower "
                       "size",
                       crop.height, crop.width, height, width));
  }
  state.shape.height = crop.height;
  state.shape.width = crop.width;
  return crop;
}

Transform build_random_horizontal_flip(const TransformSpec& spec, const TransformArguments& arguments,
                                       PictureState& state) {
  require_hwc(spec, state);
  return RandomHorizontalFlip{.prob = arguments.number("prob", {0, 1}, 0.5)};
}

Transform build_resize(const TransformSpec& spec, const TransformArguments& arguments, PictureState& state) {
  require_hwc(spec, state);
  const auto size = arguments.integers("size", kSide, {2}, "a list [height, width]");
  Resize resize{.height = size.front(), .width = size.back()};
  if (size.size() == 1) {
    const std::int64_t smaller = std::min(state.shape.height, state.shape.width);
    const auto scaled = [&](int side) {
      const std::int64_t length = side * static_cast<std::int64_t>(size[0]) / smaller;
      if (length > kSide.high) {
        refuse(spec, fmt::format("resize to {} would make a side of {}; at most {} are allowed", size[0], length,
                                 kSide.high));
      }
      return static_cast<int>(length);
    };
    resize = {.height = scaled(state.shape.height), .width = scaled(state.shape.width)};
  }
  state.shape.height = resize.height;
  state.shape.width = resize.width;
  return resize;
}

Transform build_rescale(const TransformSpec&, const TransformArguments& arguments, PictureState& state) {
  state.type = PixelType::float32;
  const double scale = arguments.number("scale", kAnyNumber);
  const double shift = arguments.number("shift", kAnyNumber, 0);
  return Rescale{.scale = static_cast<float>(scale), .shift = static_cast<float>(shift)};
}

Transform build_normalize(const TransformSpec&, const TransformArguments& arguments, PictureState& state) {
  state.type = PixelType::float32;
  const auto channels = static_cast<std::size_t>(state.shape.channels);
  const std::string meaning = fmt::format("a list of {}, one for each channel", channels);
  const auto for_each_channel = [&](std::vector<double> values) {
    if (values.size() == 1) values.resize(channels, values[0]);
    return std::vector<float>(values.begin(), values.end());
  };
  auto mean = for_each_channel(arguments.numbers("mean", kAnyNumber, {channels}, meaning));
  auto std = for_each_channel(arguments.numbers("std", kPositive, {channels}, meaning));
  return Normalize{.mean = std::move(mean), .std = std::move(std)};
}

Transform build_hwc2chw(const TransformSpec& spec, const TransformArguments&, PictureState& state) {
  require_hwc(spec, state);
  state.channels_first = true;
  return HwcToChw{};
}

Transform build_type_cast(const TransformSpec&, const TransformArguments& arguments, PictureState& state) {
  state.type = arguments.choice("type", {"float32", "int32"}) == "int32" ? PixelType::int32 : PixelType::float32;
  return TypeCast{.type = state.type};
}

struct Entry {
  std::string_view name;
  std::array<std::string_view, 2> arguments;  // "": unused
  Transform (*build)(const TransformSpec&, const TransformArguments&, PictureState&);

  std::vector<std::string> argument_names() const {
    std::vector<std::string> names(arguments.begin(), arguments.end());
    std::erase(names, "");
    return names;
  }
};
constexpr std::array kEntries{Entry{"random_crop", {"size", "padding"}, build_random_crop},
                              Entry{"random_horizontal_flip", {"prob"}, build_random_horizontal_flip},
                              Entry{"resize", {"size"}, build_resize},
                              Entry{"rescale", {"scale", "shift"}, build_rescale},
                              Entry{"normalize", {"mean", "std"}, build_normalize},
                              Entry{"hwc2chw", {}, build_hwc2chw},
                              Entry{"type_cast", {"type"}, build_type_cast}};

// A normalized name: "RandomCrop" and "random_crop" are equal.
std::string without_case(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

const Entry& find_entry(const TransformSpec& spec) {
  for (const Entry& entry : kEntries) {
    if (without_case(entry.name) == without_case(spec.name)) return entry;
  }
  const std::vector<std::string> names = transform_names();
  refuse(spec, fmt::format("there is no transform '{}'; known are {}{}", cut_text(spec.name), fmt::join(names, ", "),
                           did_you_mean(spec.name, names)));
}

struct ToText {
  std::string operator()(const RandomCrop& t) const {
    return fmt::format("random_crop {}x{} padding {},{},{},{}", t.height, t.width, t.left, t.top, t.right, t.bottom);
  }
  std::string operator()(const RandomHorizontalFlip& t) const {
    return fmt::format("random_horizontal_flip {}", t.prob);
  }
  std::string operator()(const Resize& t) const { return fmt::format("resize {}x{}", t.height, t.width); }
  std::string operator()(const Rescale& t) const { return fmt::format("rescale {} {}", t.scale, t.shift); }
  std::string operator()(const Normalize& t) const {
    return fmt::format("normalize mean {} std {}", fmt::join(t.mean, ","), fmt::join(t.std, ","));
  }
  std::string operator()(const HwcToChw&) const { return "hwc2chw"; }
  std::string operator()(const TypeCast& t) const {
    return t.type == PixelType::int32 ? "type_cast int32" : "type_cast float32";
  }
};

}  // namespace

std::vector<std::string> transform_names() {
  std::vector<std::string> names;
  names.reserve(kEntries.size());
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

std::vector<Transform> build_transforms(std::span<const TransformSpec> specs, PictureState& state) {
  std::vector<Transform> transforms;
  for (const TransformSpec& spec : specs) {
    const Entry& entry = find_entry(spec);
    const TransformArguments arguments(spec, entry.argument_names());
    transforms.push_back(entry.build(spec, arguments, state));
  }
  return transforms;
}

std::string to_text(const Transform& transform) { return std::visit(ToText{}, transform); }

}  // namespace lockstep::data
