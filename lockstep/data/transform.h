// The transforms, as plain values. data/step_by_step.cpp is the reference implementation; data/fused_plan.h computes
// bit-equal results faster.
#pragma once

#include <lockstep/data/dataset.h>
#include <lockstep/data/loader.h>

#include <span>
#include <string>
#include <variant>
#include <vector>

namespace lockstep::data {

enum class PixelType { uint8, int32, float32 };

/// The format of a picture between two transforms. Pictures begin as HWC uint8, as in MindSpore.
struct PictureState {
  PictureShape shape;
  bool channels_first = false;
  PixelType type = PixelType::uint8;
};

/// Adds `padding` zeros on each side, then crops a window at a uniformly random position.
struct RandomCrop {
  int height = 0;
  int width = 0;
  int left = 0;
  int top = 0;
  int right = 0;
  int bottom = 0;
};

/// Flips the picture horizontally with probability `prob`.
struct RandomHorizontalFlip {
  double prob = 0.5;
};

/// Bilinear interpolation with half-pixel centres, without antialiasing, along rows first: OpenCV's INTER_LINEAR, and
/// torch's interpolate with align_corners=false. Integer pictures stay integer: the result is rounded to nearest,
/// halves up.
struct Resize {
  int height = 0;
  int width = 0;
};

/// value * scale + shift, in float32; the picture becomes float32.
struct Rescale {
  float scale = 1;
  float shift = 0;
};

/// (value - mean[c]) / std[c] for each channel, in float32; the picture becomes float32.
struct Normalize {
  std::vector<float> mean;
  std::vector<float> std;
};

/// Transposes HWC to CHW.
struct HwcToChw {};

/// Converts to float32, or to int32 by truncation.
struct TypeCast {
  PixelType type = PixelType::float32;
};

using Transform = std::variant<RandomCrop, RandomHorizontalFlip, Resize, Rescale, Normalize, HwcToChw, TypeCast>;

/// "random_crop", "random_horizontal_flip", "resize", "rescale", "normalize", "hwc2chw", "type_cast".
std::vector<std::string> transform_names();

/// Builds the transforms for pictures in the format `state`, and changes `state` to the output format of the last
/// transform. Names may also be written as in MindSpore (RandomCrop, HWC2CHW). Arguments:
///   random_crop             size (N, or [height, width]); padding (N, [left/right, top/bottom] or [left, top, right,
///                           bottom]; default 0)
///   random_horizontal_flip  prob (default 0.5)
///   resize                  size ([height, width], or N: the smaller side becomes N, the other keeps the ratio)
///   rescale                 scale, shift (default 0)
///   normalize               mean, std (a number for all channels, or one for each)
///   hwc2chw                 none
///   type_cast               type ("float32" or "int32")
/// Error(config) with the position in the file for unknown names and arguments (with the nearest valid one), wrong
/// types, values out of range, and transforms that cannot follow the preceding ones.
std::vector<Transform> build_transforms(std::span<const TransformSpec> specs, PictureState& state);

/// E.g. "random_crop 32x32 padding 4,4,4,4".
std::string to_text(const Transform& transform);

}  // namespace lockstep::data
