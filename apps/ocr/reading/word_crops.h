// The pictures of single words, cut out of a photograph.
#pragma once

#include <apps/ocr/detection/polygon.h>

namespace lockstep::ocr {

/// A word as an upright rectangle, uint8 RGB, at least one pixel large: the perspective of its quadrangle is undone.
/// Other polygons are cut out by the smallest rectangle around them. A word that is 1.5 times as high as wide is turned
/// by 90 degrees counter-clockwise, because its text runs from top to bottom.
cv::Mat cut_word(const cv::Mat& photograph, const Polygon& word);

}  // namespace lockstep::ocr
