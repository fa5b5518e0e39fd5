// DBNet's targets: polygons shrunk by an offset and filled, and a threshold map from distances to their edges.
#include <apps/ocr/detection/targets.h>

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <limits>

namespace lockstep::ocr {
namespace {

constexpr double kLeastArea = 1;  // pixels

/// Pieces that do not overlap; one within another is a hole.
void fill(cv::Mat& map, const std::vector<Polygon>& pieces, int value) {
  std::vector<std::vector<cv::Point>> outlines;
  outlines.reserve(pieces.size());
  for (const auto& piece : pieces) outlines.push_back(cut_corners(piece));
  cv::fillPoly(map, outlines, cv::Scalar(value));
}

cv::Rect2d bounds_of(const std::vector<Polygon>& pieces) {
  Polygon all;
  for (const auto& piece : pieces) all.insert(all.end(), piece.begin(), piece.end());
  return bounds(all);
}

void add_border(BorderMap& map, const Polygon& polygon, const BorderOptions& options) {
  const double reach = shrink_distance(polygon, options.shrink_ratio);
  if (reach <= 0) return;
  const auto grown = offset(polygon, reach);
  if (grown.empty()) return;
  fill(map.mask, grown, 1);
  const auto box = bounds_of(grown);
  const cv::Point low(static_cast<int>(box.x), static_cast<int>(box.y));
  const cv::Point high(static_cast<int>(box.x + box.width), static_cast<int>(box.y + box.height));
  const cv::Rect part = cv::Rect(low, high + cv::Point(1, 1)) & cv::Rect({0, 0}, map.threshold.size());
  for (int y = part.y; y < part.y + part.height; ++y) {
    auto* row = map.threshold.ptr<float>(y);
    for (int x = part.x; x < part.x + part.width; ++x) {
      double nearest = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < polygon.size(); ++i) {
        nearest = std::min(nearest, distance_to_segment({static_cast<double>(x), static_cast<double>(y)}, polygon[i],
                                                        polygon[(i + 1) % polygon.size()]));
      }
      row[x] = std::max(row[x], static_cast<float>(1 - std::min(nearest / reach, 1.0)));
    }
  }
}

}  // namespace

double shrink_distance(const Polygon& polygon, double ratio) {
  const double around = perimeter(polygon);
  return around > 0 ? area(polygon) * (1 - ratio * ratio) / around : 0;
}

ShrinkMap shrink_map(Words& words, int height, int width, const ShrinkOptions& options) {
  ShrinkMap map{cv::Mat::zeros(height, width, CV_8U), cv::Mat::ones(height, width, CV_8U)};
  for (auto& word : words) {
    const auto box = bounds(word.polygon);
    std::vector<Polygon> shrunk;
    // A shape without area cannot shrink: its outline would become text.
    const bool has_area = area(word.polygon) >= kLeastArea;
    if (!word.ignored && has_area && std::min(box.width, box.height) >= options.min_text_size) {
      shrunk = offset(word.polygon, -shrink_distance(word.polygon, options.shrink_ratio));
    }
    if (shrunk.empty()) {
      word.ignored = true;
      fill(map.mask, {word.polygon}, 0);
    } else {
      fill(map.text, shrunk, 1);
    }
  }
  return map;
}

BorderMap border_map(const Words& words, int height, int width, const BorderOptions& options) {
  BorderMap map{cv::Mat::zeros(height, width, CV_32F), cv::Mat::zeros(height, width, CV_8U)};
  for (const auto& word : words) {
    if (!word.ignored) add_border(map, word.polygon, options);
  }
  map.threshold = map.threshold * (options.high - options.low) + options.low;
  return map;
}

}  // namespace lockstep::ocr
