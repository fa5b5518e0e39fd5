// Steps that change a photograph and the polygons of its words together. Pure functions of their arguments.
#pragma once

#include <apps/ocr/detection/targets.h>

#include <cstdint>
#include <functional>

namespace lockstep::ocr {

/// A photograph, uint8 [H, W, 3], and its words.
struct TextPicture {
  cv::Mat pixels;
  Words words;
};

/// Left to right; corners keep their direction around the polygon.
void mirror(TextPicture& picture);

/// Counter-clockwise by `degrees` around the middle, cut to whole pixels; the size does not change, and new areas are
/// black.
void rotate(TextPicture& picture, double degrees);

/// Scales both sides, to the nearest whole number of pixels; bilinear.
void scale(TextPicture& picture, double factor);

/// Scales to this size, without keeping the ratio.
void stretch(TextPicture& picture, int height, int width);

struct CropOptions {
  int height = 640;
  int width = 640;
  int tries = 10;
  double min_side_ratio = 0.1;  ///< of a window, relative to the picture's side
  bool keep_scale = false;      ///< windows of height x width, or of the picture's sides if those are smaller
};

/// A uniform whole number from 0 to below the argument.
using Draw = std::function<std::uint64_t(std::uint64_t below)>;

/// A window whose borders cut no readable word, and that touches at least one; the whole picture if none is found.
/// Draws two rows and two columns per try. With `keep_scale` the window's position is drawn; if all tries cut words,
/// the result is the first window that touches a word, or a window around the middle of a word.
cv::Rect crop_window(const TextPicture& picture, const CropOptions& options, const Draw& draw);

/// Cuts the window out, scales it to fit into height x width with its ratio, and fills up with black on the right and
/// below. Words that do not touch the window are dropped; words with less than `min_area` pixels inside become ignored.
/// Polygons are not clipped.
void crop(TextPicture& picture, const cv::Rect& window, const CropOptions& options, double min_area);

}  // namespace lockstep::ocr
