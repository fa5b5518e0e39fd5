// The arithmetic of transforms of pictures, on tensors: the operations of torchvision on tensors, with equal results.
//
// Pictures are HWC, uint8, int32 or float32, with one or three channels. A uint8 picture stays uint8: like in
// torchvision, results are rounded to the nearest for a resize, and truncated where colours are mixed.
#pragma once

#include <array>
#include <cstdint>

namespace at {
class Tensor;
}

namespace lockstep::samples {

struct Box {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

struct Margins {
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t right = 0;
  std::int64_t bottom = 0;
};

/// The same as resized() of pictures.h without `antialias`, but rounded halves up, and with the sums of one float32
/// addition each, so that data::PicturePlan, which goes over bytes, gives equal results.
at::Tensor resized_half_up(const at::Tensor& picture, std::int64_t height, std::int64_t width);

/// The size with `side` as the shorter one and the same ratio, rounded down.
Box box_with_shorter_side(std::int64_t height, std::int64_t width, std::int64_t side);

/// A view of the box, which lies within the picture.
at::Tensor cropped(const at::Tensor& picture, const Box& box);

/// Padded with `value` on each side.
at::Tensor with_margins(const at::Tensor& picture, const Margins& margins, double value);

/// The middle; a smaller picture is padded with zeros on all sides.
at::Tensor center_cropped(const at::Tensor& picture, std::int64_t height, std::int64_t width);

at::Tensor mirrored(const at::Tensor& picture);

/// picture * factor.
at::Tensor with_brightness(const at::Tensor& picture, double factor);
/// Interpolates between the mean of its grey values (factor 0) and the picture (1), or extrapolates.
at::Tensor with_contrast(const at::Tensor& picture, double factor);
/// Interpolates between the grey picture and the picture.
at::Tensor with_saturation(const at::Tensor& picture, double factor);
/// The colours turned by `shift` of the whole circle, -0.5 to 0.5. A grey picture is not changed.
at::Tensor with_hue(const at::Tensor& picture, double shift);
/// Interpolates between the picture after a 3x3 filter (factor 0), but for the pixels at its borders, and the picture.
at::Tensor with_sharpness(const at::Tensor& picture, double factor);

/// The first rows of a matrix that maps the place (x, y, 1) of a pixel to the place in the source that it shows. The
/// middle of a picture is (0, 0).
using AffineMap = std::array<double, 6>;

/// The picture seen through `map`, by the nearest pixel or bilinear between four; `fill` is shown outside of it.
at::Tensor warped(const at::Tensor& picture, const AffineMap& map, bool bilinear, double fill);

// Of bytes only.

/// With the first `bits` bits of each byte.
at::Tensor posterized(const at::Tensor& picture, int bits);
/// 255 - value, where the value is not below the limit.
at::Tensor solarized(const at::Tensor& picture, double limit);
/// Each channel stretched to values from 0 to 255.
at::Tensor with_full_contrast(const at::Tensor& picture);
/// Each channel mapped so that its histogram becomes flat.
at::Tensor equalized(const at::Tensor& picture);

}  // namespace lockstep::samples
