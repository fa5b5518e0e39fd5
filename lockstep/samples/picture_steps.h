// The arithmetic of transforms of pictures, on tensors: what torchvision computes on tensors, with the same numbers.
//
// Pictures are HWC, uint8 or float32, with one or three channels. A uint8 picture stays one: results are rounded to the
// nearest where it is resized, and cut off where colours are mixed, as torchvision does.
#pragma once

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

/// Bilinear, with half-pixel centres. `antialias`: a smaller picture averages over what each of its pixels covers.
at::Tensor resized(const at::Tensor& picture, std::int64_t height, std::int64_t width, bool antialias);

/// The size with `side` as the shorter one and the same ratio, rounded down.
Box box_with_shorter_side(std::int64_t height, std::int64_t width, std::int64_t side);

/// A view of what is in the box, which lies within the picture.
at::Tensor cropped(const at::Tensor& picture, const Box& box);

/// Filled up with `value` on each side.
at::Tensor with_margins(const at::Tensor& picture, const Margins& margins, double value);

/// The middle; a picture that is smaller is filled up with zeros around it.
at::Tensor center_cropped(const at::Tensor& picture, std::int64_t height, std::int64_t width);

at::Tensor mirrored(const at::Tensor& picture);

/// picture * factor.
at::Tensor with_brightness(const at::Tensor& picture, double factor);
/// Between the mean of its grey values (factor 0) and the picture (1), and beyond.
at::Tensor with_contrast(const at::Tensor& picture, double factor);
/// Between its grey picture and itself.
at::Tensor with_saturation(const at::Tensor& picture, double factor);
/// The colours turned by `shift` of the whole circle, -0.5 to 0.5. A grey picture stays as it is.
at::Tensor with_hue(const at::Tensor& picture, double shift);

}  // namespace lockstep::samples
