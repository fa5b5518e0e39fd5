// Picture operations on HWC tensors, with torchvision's rounding unless they say another: resize, crop, pad, flip,
// colours (hue through HSV), and the operations of RandAugment.
#include <lockstep/data/picture_plan.h>
#include <lockstep/samples/picture_steps.h>
#include <lockstep/samples/pictures.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

namespace lockstep::samples {
namespace {

double bound_of(const at::Tensor& picture) { return picture.is_floating_point() ? 1.0 : 255.0; }

/// ratio * a + (1 - ratio) * b, within the range of the dtype.
at::Tensor mixed(const at::Tensor& a, const at::Tensor& b, double ratio) {
  return (ratio * a + (1.0 - ratio) * b).clamp(0, bound_of(a)).to(a.scalar_type());
}

/// [H, W, 1], of the picture's dtype.
at::Tensor grey_of(const at::Tensor& picture) {
  if (picture.size(2) == 1) return picture;
  const auto channel = [&](std::int64_t c) { return picture.select(2, c); };
  return (0.2989 * channel(0) + 0.587 * channel(1) + 0.114 * channel(2)).to(picture.scalar_type()).unsqueeze(2);
}

// Smith 1978: hue, saturation and value, each from 0 to 1, of float channels.
struct Hsv {
  at::Tensor hue, saturation, value;
};

Hsv to_hsv(const at::Tensor& r, const at::Tensor& g, const at::Tensor& b) {
  const auto most = at::maximum(at::maximum(r, g), b);
  const auto least = at::minimum(at::minimum(r, g), b);
  const auto grey = most == least;
  const auto range = most - least;
  const auto ones = at::ones_like(most);
  const auto divisor = at::where(grey, ones, range);
  const auto saturation = range / at::where(grey, ones, most);
  const auto rc = (most - r) / divisor, gc = (most - g) / divisor, bc = (most - b) / divisor;
  const auto from_red = (most == r) * (bc - gc);
  const auto from_green = at::logical_and(most == g, most != r) * (2.0 + rc - bc);
  const auto from_blue = at::logical_and(most != g, most != r) * (4.0 + gc - rc);
  const auto hue = at::fmod((from_red + from_green + from_blue) / 6.0 + 1.0, 1.0);
  return {hue, saturation, most};
}

at::Tensor to_rgb(const Hsv& hsv) {
  const auto sixth = at::floor(hsv.hue * 6.0);
  const auto f = hsv.hue * 6.0 - sixth;
  const auto sector = sixth.to(at::kInt).remainder(6);
  const auto& v = hsv.value;
  const auto& s = hsv.saturation;
  const auto p = (v * (1.0 - s)).clamp(0, 1);
  const auto q = (v * (1.0 - s * f)).clamp(0, 1);
  const auto t = (v * (1.0 - s * (1.0 - f))).clamp(0, 1);
  // The choice of v, q, p or t for each channel, in each of the six sectors.
  const auto choose = [&](const std::array<at::Tensor, 6>& of_sector) {
    auto out = at::zeros_like(v);
    for (int i = 0; i < 6; ++i) out = at::where(sector == i, of_sector[static_cast<std::size_t>(i)], out);
    return out;
  };
  return at::stack({choose({v, q, p, p, t, v}), choose({t, v, v, q, p, p}), choose({p, p, t, v, v, q})}, 2);
}

/// Along dimension `dim` of floats [H, W, C].
at::Tensor resized_along(const at::Tensor& picture, std::int64_t dim, std::int64_t target) {
  const auto taps = data::resize_axis(static_cast<int>(picture.size(dim)), static_cast<int>(target));
  const auto weighted = [&](int data::ResizeTap::*place, float data::ResizeTap::*weight) {
    auto places = at::empty({target}, at::kLong);
    auto weights = at::empty({target}, at::kFloat);
    for (std::int64_t i = 0; i < target; ++i) {
      const auto& tap = taps[static_cast<std::size_t>(i)];
      places.data_ptr<std::int64_t>()[i] = tap.*place;
      weights.data_ptr<float>()[i] = tap.*weight;
    }
    return picture.index_select(dim, places).mul_(dim == 0 ? weights.view({target, 1, 1}) : weights.view({target, 1}));
  };
  return weighted(&data::ResizeTap::first, &data::ResizeTap::first_weight)
      .add_(weighted(&data::ResizeTap::second, &data::ResizeTap::second_weight));
}

/// [1, C, H, W], float32.
at::Tensor planes_of(const at::Tensor& picture) {
  return picture.permute({2, 0, 1}).unsqueeze(0).to(at::kFloat).contiguous();
}

/// The picture of such planes, rounded where it has whole numbers.
at::Tensor from_planes(const at::Tensor& planes, at::ScalarType type) {
  const auto out = at::isFloatingType(type) ? planes : planes.round().clamp(0, 255).to(type);
  return out.squeeze(0).permute({1, 2, 0}).contiguous();
}

/// The table from each byte to its new value, for one channel of bytes.
std::array<std::uint8_t, 256> flat_histogram(const at::Tensor& channel) {
  std::array<std::uint8_t, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::uint8_t>(i);
  const auto counts = at::bincount(channel.reshape({-1}), {}, 256);
  const std::span all(counts.data_ptr<std::int64_t>(), 256);
  const auto last = std::ranges::find_if(all.rbegin(), all.rend(), [](std::int64_t count) { return count > 0; });
  const auto step = last == all.rend() ? 0 : (channel.numel() - *last) / 255;
  if (step == 0) return table;
  std::int64_t below = 0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = i == 0 ? 0 : static_cast<std::uint8_t>(std::min<std::int64_t>((below + step / 2) / step, 255));
    below += all[i];
  }
  return table;
}

}  // namespace

at::Tensor resized(const at::Tensor& picture, std::int64_t height, std::int64_t width, bool antialias) {
  if (picture.size(0) == height && picture.size(1) == width) return picture;
  const auto planes = planes_of(picture);
  return from_planes(antialias ? at::_upsample_bilinear2d_aa(planes, {height, width}, /*align_corners=*/false)
                               : at::upsample_bilinear2d(planes, {height, width}, /*align_corners=*/false),
                     picture.scalar_type());
}

at::Tensor resized_half_up(const at::Tensor& picture, std::int64_t height, std::int64_t width) {
  const auto out = resized_along(resized_along(picture.to(at::kFloat), 1, width), 0, height);
  return picture.is_floating_point() ? out : (out + 0.5).floor_().to(picture.scalar_type());
}

Box box_with_shorter_side(std::int64_t height, std::int64_t width, std::int64_t side) {
  const auto shorter = std::min(height, width);
  const auto scaled = [&](std::int64_t length) {
    return length == shorter ? side : std::max<std::int64_t>(1, side * length / shorter);
  };
  return {.height = scaled(height), .width = scaled(width)};
}

at::Tensor cropped(const at::Tensor& picture, const Box& box) {
  return picture.narrow(0, box.top, box.height).narrow(1, box.left, box.width);
}

at::Tensor with_margins(const at::Tensor& picture, const Margins& margins, double value) {
  return at::constant_pad_nd(picture, {0, 0, margins.left, margins.right, margins.top, margins.bottom}, value);
}

at::Tensor center_cropped(const at::Tensor& picture, std::int64_t height, std::int64_t width) {
  const auto missing = [](std::int64_t wanted, std::int64_t there) {
    return std::max<std::int64_t>(0, wanted - there);
  };
  const auto rows = missing(height, picture.size(0)), columns = missing(width, picture.size(1));
  auto large = picture;
  if (rows > 0 || columns > 0) {
    large = with_margins(picture, {columns / 2, rows / 2, (columns + 1) / 2, (rows + 1) / 2}, 0);
  }
  // Rounds to the even number at a tie, like Python.
  const auto half = [](std::int64_t rest) { return std::lrint(static_cast<double>(rest) / 2); };
  return cropped(large, {half(large.size(0) - height), half(large.size(1) - width), height, width});
}

at::Tensor mirrored(const at::Tensor& picture) { return picture.flip({1}); }

at::Tensor with_brightness(const at::Tensor& picture, double factor) {
  return mixed(picture, at::zeros_like(picture), factor);
}

at::Tensor with_contrast(const at::Tensor& picture, double factor) {
  const auto grey = grey_of(picture);
  const auto mean = grey.to(picture.is_floating_point() ? picture.scalar_type() : at::kFloat).mean();
  return mixed(picture, mean, factor);
}

at::Tensor with_saturation(const at::Tensor& picture, double factor) {
  if (picture.size(2) == 1) return picture;
  return mixed(picture, grey_of(picture), factor);
}

at::Tensor with_hue(const at::Tensor& picture, double shift) {
  if (picture.size(2) == 1) return picture;
  const bool whole = !picture.is_floating_point();
  const auto colours = whole ? picture.to(at::kFloat) / 255.0 : picture;
  auto hsv = to_hsv(colours.select(2, 0), colours.select(2, 1), colours.select(2, 2));
  hsv.hue = (hsv.hue + shift).remainder(1.0);
  const auto out = to_rgb(hsv);
  // 256 wide steps, the last one open: 1.0 is 255.
  return whole ? (out * (256.0 - 1e-3)).to(picture.scalar_type()) : out;
}

at::Tensor with_sharpness(const at::Tensor& picture, double factor) {
  const auto height = picture.size(0), width = picture.size(1), channels = picture.size(2);
  if (height <= 2 || width <= 2) return picture;
  auto filter = at::ones({3, 3}, at::kFloat);
  filter[1][1] = 5;
  filter = (filter / filter.sum()).expand({channels, 1, 3, 3});
  const auto smooth = at::conv2d(planes_of(picture), filter, {}, {1, 1}, at::IntArrayRef({0, 0}), {1, 1}, channels);
  auto blurred = picture.clone();
  blurred.narrow(0, 1, height - 2).narrow(1, 1, width - 2).copy_(from_planes(smooth, picture.scalar_type()));
  return mixed(picture, blurred, factor);
}

at::Tensor warped(const at::Tensor& picture, const AffineMap& map, bool bilinear, double fill) {
  const auto height = picture.size(0), width = picture.size(1);
  // The middles of the pixels of a side.
  const auto places = [](std::int64_t side) {
    const auto half = static_cast<double>(side) / 2;
    return at::linspace(0.5 - half, half - 0.5, side, at::kFloat);
  };
  auto grid = at::ones({1, height, width, 3}, at::kFloat);
  grid.select(3, 0).copy_(places(width));
  grid.select(3, 1).copy_(places(height).unsqueeze(1));
  const auto sides = at::tensor({0.5 * static_cast<double>(width), 0.5 * static_cast<double>(height)}, at::kFloat);
  const auto matrix = at::tensor(map, at::kFloat).view({1, 2, 3}).transpose(1, 2) / sides;
  grid = grid.view({1, height * width, 3}).bmm(matrix).view({1, height, width, 2});

  const auto planes = planes_of(picture);
  const auto look = [&](const at::Tensor& at_places) {
    return at::grid_sampler_2d(at_places, grid, bilinear ? 0 : 1, /*padding_mode zeros*/ 0, /*align_corners=*/false);
  };
  auto out = look(planes);
  if (fill != 0) {
    const auto inside = look(at::ones_like(planes.narrow(1, 0, 1)));
    out = bilinear ? out * inside + (1.0 - inside) * fill : at::where(inside < 0.5, at::full({}, fill), out);
  }
  return from_planes(out, picture.scalar_type());
}

at::Tensor posterized(const at::Tensor& picture, int bits) { return picture.bitwise_and(256 - (1 << (8 - bits))); }

at::Tensor solarized(const at::Tensor& picture, double limit) {
  return at::where(picture >= limit, 255 - picture, picture);
}

at::Tensor with_full_contrast(const at::Tensor& picture) {
  const auto least = picture.amin({0, 1}, /*keepdim=*/true).to(at::kFloat);
  const auto most = picture.amax({0, 1}, /*keepdim=*/true).to(at::kFloat);
  const auto flat = most == least;
  const auto factor = at::where(flat, at::ones_like(most), (most - least).reciprocal() * 255);
  return ((picture - at::where(flat, at::zeros_like(least), least)) * factor).clamp(0, 255).to(at::kByte);
}

at::Tensor equalized(const at::Tensor& picture) {
  std::vector<at::Tensor> channels;
  for (const auto& channel : picture.unbind(2)) {
    auto table = flat_histogram(channel);
    channels.push_back(
        at::from_blob(table.data(), {256}, at::kByte).index_select(0, channel.reshape({-1}).to(at::kLong)));
  }
  return at::stack(channels, 1).view_as(picture);
}

}  // namespace lockstep::samples
