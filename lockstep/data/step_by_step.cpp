// The transforms one after the other on floats in HWC order: the reference for the fused plan, and its fallback.
#include <lockstep/data/resize_axis.h>
#include <lockstep/data/step_by_step.h>

#include <cmath>
#include <utility>

namespace lockstep::data {
namespace {

FloatPicture blank(const PictureState& like, int height, int width) {
  FloatPicture picture{like, {}};
  picture.state.shape.height = height;
  picture.state.shape.width = width;
  picture.values.resize(picture_size(picture.state.shape));
  return picture;
}

std::size_t hwc(const PictureShape& shape, int y, int x, int c) {
  return (static_cast<std::size_t>(y) * static_cast<std::size_t>(shape.width) + static_cast<std::size_t>(x)) *
             static_cast<std::size_t>(shape.channels) +
         static_cast<std::size_t>(c);
}

// Calls `body(y, x, c)` for every value of a picture.
template <typename Body>
void for_each_value(const PictureShape& shape, Body body) {
  for (int y = 0; y < shape.height; ++y) {
    for (int x = 0; x < shape.width; ++x) {
      for (int c = 0; c < shape.channels; ++c) body(y, x, c);
    }
  }
}

FloatPicture crop(const FloatPicture& in, const RandomCrop& window, CropOrigin origin) {
  FloatPicture out = blank(in.state, window.height, window.width);
  const PictureShape& source = in.state.shape;
  for_each_value(out.state.shape, [&](int y, int x, int c) {
    const int from_y = y + origin.top;
    const int from_x = x + origin.left;
    if (from_y < 0 || from_y >= source.height || from_x < 0 || from_x >= source.width) return;
    out.values[hwc(out.state.shape, y, x, c)] = in.values[hwc(source, from_y, from_x, c)];
  });
  return out;
}

FloatPicture mirror(const FloatPicture& in) {
  const PictureShape& shape = in.state.shape;
  FloatPicture out = blank(in.state, shape.height, shape.width);
  for_each_value(shape, [&](int y, int x, int c) {
    out.values[hwc(shape, y, x, c)] = in.values[hwc(shape, y, shape.width - 1 - x, c)];
  });
  return out;
}

FloatPicture resize(const FloatPicture& in, const Resize& to) {
  const PictureShape& source = in.state.shape;
  const auto rows = resize_axis(source.height, to.height);
  const auto columns = resize_axis(source.width, to.width);
  FloatPicture out = blank(in.state, to.height, to.width);
  for_each_value(out.state.shape, [&](int y, int x, int c) {
    const ResizeTap& row = rows[static_cast<std::size_t>(y)];
    const ResizeTap& column = columns[static_cast<std::size_t>(x)];
    const auto along_row = [&](int from_y) {
      return blend(in.values[hwc(source, from_y, column.first, c)], column.first_weight,
                   in.values[hwc(source, from_y, column.second, c)], column.second_weight);
    };
    const float value = blend(along_row(row.first), row.first_weight, along_row(row.second), row.second_weight);
    // int32 pictures may have negative values, for which floor(x + 0.5) rounds like round_half_up.
    const bool whole = in.state.type != PixelType::float32;
    out.values[hwc(out.state.shape, y, x, c)] = whole ? std::floor(value + 0.5F) : value;
  });
  return out;
}

FloatPicture to_channels_first(const FloatPicture& in) {
  FloatPicture out = in;
  const PictureShape& shape = in.state.shape;
  out.state.channels_first = true;
  std::size_t next = 0;
  for (int c = 0; c < shape.channels; ++c) {
    for (int y = 0; y < shape.height; ++y) {
      for (int x = 0; x < shape.width; ++x) out.values[next++] = in.values[hwc(shape, y, x, c)];
    }
  }
  return out;
}

FloatPicture change_values(FloatPicture picture, const Transform& transform, PixelType type) {
  const PictureShape& shape = picture.state.shape;
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::size_t plane = picture_size(shape) / channels;
  for (std::size_t i = 0; i < picture.values.size(); ++i) {
    const std::size_t channel = picture.state.channels_first ? i / plane : i % channels;
    picture.values[i] = apply_to_value(transform, picture.values[i], channel);
  }
  picture.state.type = type;
  return picture;
}

// Runs one transform; `random_position` counts the random transforms so far.
struct Runner {
  FloatPicture picture;
  const SampleKey& key;
  std::size_t random_position = 0;

  void operator()(const RandomCrop& t) {
    const PictureShape& shape = picture.state.shape;
    const auto origin = draw_crop(t, shape.height, shape.width, transform_stream(key, random_position++));
    picture = crop(picture, t, origin);
  }
  void operator()(const RandomHorizontalFlip& t) {
    if (draw_flip(t, transform_stream(key, random_position++))) picture = mirror(picture);
  }
  void operator()(const Resize& t) { picture = resize(picture, t); }
  void operator()(const HwcToChw&) { picture = to_channels_first(picture); }
  void operator()(const Rescale& t) { picture = change_values(std::move(picture), t, PixelType::float32); }
  void operator()(const Normalize& t) { picture = change_values(std::move(picture), t, PixelType::float32); }
  void operator()(const TypeCast& t) { picture = change_values(std::move(picture), t, t.type); }
};

struct ValueChange {
  float value;
  std::size_t channel;

  float operator()(const Rescale& t) const { return value * t.scale + t.shift; }
  float operator()(const Normalize& t) const { return (value - t.mean[channel]) / t.std[channel]; }
  float operator()(const TypeCast& t) const { return t.type == PixelType::int32 ? std::trunc(value) : value; }
  template <typename Geometric>
  float operator()(const Geometric&) const {
    return value;
  }
};

}  // namespace

float apply_to_value(const Transform& transform, float value, std::size_t channel) {
  return std::visit(ValueChange{value, channel}, transform);
}

FloatPicture decode(std::span<const std::uint8_t> pixels, const PictureShape& shape) {
  FloatPicture picture{{.shape = shape}, std::vector<float>(picture_size(shape))};
  const std::size_t plane = picture_size(shape) / static_cast<std::size_t>(shape.channels);
  for_each_value(shape, [&](int y, int x, int c) {
    const std::size_t from = static_cast<std::size_t>(c) * plane +
                             static_cast<std::size_t>(y) * static_cast<std::size_t>(shape.width) +
                             static_cast<std::size_t>(x);
    picture.values[hwc(shape, y, x, c)] = pixels[from];
  });
  return picture;
}

FloatPicture apply_transforms(const std::vector<Transform>& transforms, FloatPicture picture, const SampleKey& key) {
  Runner runner{std::move(picture), key};
  for (const Transform& transform : transforms) std::visit(runner, transform);
  return std::move(runner.picture);
}

}  // namespace lockstep::data
