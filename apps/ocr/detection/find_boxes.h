// From a map of probabilities to boxes or polygons of words.
#pragma once

#include <apps/ocr/detection/polygon.h>
#include <lockstep/base/config.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::ocr {

struct FindOptions {
  double map_threshold = 0.3;      ///< pixels of at least this probability belong to words
  double box_threshold = 0.6;      ///< mean probability of a word
  std::int64_t most_words = 1000;  ///< the maximum number of contours of a picture
  double expand_ratio = 1.5;       ///< undoes the shrinking of words
  std::string shape = "quad";      ///< quad or polygon
  double min_side = 3;             ///< of a word before it grows, in pixels of the map
};
void describe(ConfigFields& fields, FindOptions& options);

struct FoundWord {
  Polygon polygon;  ///< whole pixels of the file's picture
  double score = 0;
};

/// The conversion from the map's pixels to those of the file's picture.
struct Frame {
  double height = 0;
  double width = 0;
  double y_factor = 1;  ///< factor from the map's coordinates to the picture's
  double x_factor = 1;
};

/// Words in a map, float [H, W], in the order of OpenCV's contours. A quadrangle begins with its upper left corner and
/// goes clockwise. Thread-safe.
std::vector<FoundWord> find_words(const cv::Mat& map, const Frame& frame, const FindOptions& options);

/// The corners of the smallest rectangle around points, in the same order, and its shorter side.
struct FittedBox {
  Polygon corners;
  double shorter_side = 0;
};
FittedBox fit_box(const std::vector<cv::Point>& points);

}  // namespace lockstep::ocr
