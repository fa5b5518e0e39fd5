// DBNet's postprocessing: threshold, contours, mean probability, a box or polygon grown by an offset, rounding.
#include <apps/ocr/detection/find_boxes.h>

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace lockstep::ocr {
namespace {

using Points = std::vector<cv::Point>;

constexpr double kGrownSide = 2;       ///< the shorter side must be this much longer after the word has grown
constexpr double kSimplified = 0.005;  ///< of a contour's length: the maximum distance of a polygon from it
constexpr std::size_t kLeastCorners = 4;

/// Mean probability of the pixels of words within the contour's upright box.
double score_of(const cv::Mat& map, const cv::Mat& bits, const Points& contour) {
  const auto box = cv::boundingRect(contour) & cv::Rect({0, 0}, map.size());
  return cv::mean(map(box), bits(box))[0];
}

/// The shape of the word before it grows; nullopt if it is too small.
std::optional<Polygon> core_of(const Points& contour, const FindOptions& options) {
  if (options.shape == "quad") {
    auto box = fit_box(contour);
    if (box.shorter_side < options.min_side) return std::nullopt;
    return std::move(box.corners);
  }
  Points simple;
  cv::approxPolyDP(contour, simple, kSimplified * cv::arcLength(contour, true), true);
  if (simple.size() < kLeastCorners) return std::nullopt;
  return Polygon(simple.begin(), simple.end());
}

std::optional<Polygon> word_of(const Points& contour, const FindOptions& options) {
  const auto core = core_of(contour, options);
  if (!core) return std::nullopt;
  const double around = perimeter(*core);
  if (around == 0) return std::nullopt;
  const auto grown = offset(*core, area(*core) * options.expand_ratio / around);
  if (grown.empty() || (options.shape != "quad" && grown.size() > 1)) return std::nullopt;
  Points all;
  for (const auto& piece : grown) {
    const auto corners = cut_corners(piece);
    all.insert(all.end(), corners.begin(), corners.end());
  }
  auto box = fit_box(all);
  if (box.shorter_side < options.min_side + kGrownSide) return std::nullopt;
  return options.shape == "quad" ? std::move(box.corners) : grown.front();
}

/// Coordinates are rounded only here.
Polygon in_picture(const Polygon& polygon, const Frame& frame) {
  Polygon corners;
  for (const auto& corner : polygon) {
    corners.emplace_back(std::clamp(std::nearbyint(corner.x / frame.x_factor), 0.0, frame.width - 1),
                         std::clamp(std::nearbyint(corner.y / frame.y_factor), 0.0, frame.height - 1));
  }
  return corners;
}

}  // namespace

void describe(ConfigFields& fields, FindOptions& options) {
  fields.field("map_threshold", options.map_threshold, between(0, 1), "pixels with this probability belong to words");
  fields.field("box_threshold", options.box_threshold, between(0, 1), "least mean probability of a word");
  fields.field("most_words", options.most_words, between(1, 1e6), "contours of a picture that are examined");
  fields.field("expand_ratio", options.expand_ratio, between(0, 100),
               "how far words grow, as they were shrunk for training");
  fields.field("shape", options.shape, one_of({"quad", "polygon"}), "what words become");
  fields.field("min_side", options.min_side, at_least(0), "least shorter side of a quad before it grows, in pixels");
}

FittedBox fit_box(const Points& points) {
  const auto box = cv::minAreaRect(points);
  std::array<cv::Point2f, 4> corners;
  box.points(corners.data());
  std::stable_sort(corners.begin(), corners.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
  const auto [left, other_left, right, other_right] = corners;
  const bool left_first = other_left.y > left.y, right_first = other_right.y > right.y;
  return {{left_first ? left : other_left, right_first ? right : other_right, right_first ? other_right : right,
           left_first ? other_left : left},
          std::min(box.size.width, box.size.height)};
}

std::vector<FoundWord> find_words(const cv::Mat& map, const Frame& frame, const FindOptions& options) {
  const cv::Mat bits = map >= options.map_threshold;
  std::vector<Points> contours;
  cv::findContours(bits, contours, cv::RETR_LIST, cv::CHAIN_APPROX_SIMPLE);
  if (contours.size() > static_cast<std::size_t>(options.most_words)) {
    contours.resize(static_cast<std::size_t>(options.most_words));
  }
  std::vector<FoundWord> words;
  for (const auto& contour : contours) {
    const double score = score_of(map, bits, contour);
    if (score < options.box_threshold) continue;
    if (const auto word = word_of(contour, options)) words.push_back({in_picture(*word, frame), score});
  }
  return words;
}

}  // namespace lockstep::ocr
