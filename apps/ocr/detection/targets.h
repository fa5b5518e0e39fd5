// The targets of DBNet for a picture: maps from the polygons of its words (Liao et al. 2020, arXiv:1911.08947).
#pragma once

#include <apps/ocr/detection/polygon.h>
#include <lockstep/base/config.h>

#include <cstdint>
#include <vector>

namespace lockstep::ocr {

struct Word {
  Polygon polygon;
  bool ignored = false;  ///< unreadable or too small: does not count
};
using Words = std::vector<Word>;

struct ShrinkOptions {
  double min_text_size = 8;   ///< the shorter side of an upright bounding box
  double shrink_ratio = 0.4;  ///< a smaller ratio shrinks more
};
void describe(ConfigFields& fields, ShrinkOptions& options);

struct ShrinkMap {
  cv::Mat text;  ///< uint8 [H, W], 1 inside of shrunk words
  cv::Mat mask;  ///< uint8 [H, W], 1 where a pixel counts
};

/// Words that are too small, have no area, or vanish when shrunk, become ignored. Ignored words are 0 in the mask. A
/// word that splits into several pieces is text in each of them. The direction of the corners does not matter. Pure.
ShrinkMap shrink_map(Words& words, int height, int width, const ShrinkOptions& options);

struct BorderOptions {
  double shrink_ratio = 0.4;
  double low = 0.3;   ///< threshold far from borders
  double high = 0.7;  ///< threshold on borders
};
void describe(ConfigFields& fields, BorderOptions& options);

struct BorderMap {
  cv::Mat threshold;  ///< float [H, W]
  cv::Mat mask;       ///< uint8 [H, W], 1 in words and around them, up to the distance of the shrinking
};

/// The threshold is `high` on the edges of words that are not ignored, and falls to `low` at the distance by which
/// shrink_map() shrinks. Computed within the box of each word. Pure.
BorderMap border_map(const Words& words, int height, int width, const BorderOptions& options);

/// The distance by which a polygon's edges are moved: (1 - ratio^2) * area / perimeter; 0 for one without perimeter.
double shrink_distance(const Polygon& polygon, double ratio);

}  // namespace lockstep::ocr
