// Polygon geometry in doubles, except offsets and intersections, which Clipper computes in whole numbers.
#include <apps/ocr/detection/polygon.h>

#include <polyclipping/clipper.hpp>

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cmath>

namespace lockstep::ocr {
namespace {

constexpr double kMiterLimit = 2.0, kArcTolerance = 0.25;
/// Clipper uses integers: overlaps are computed with coordinates in 1024ths of a pixel.
constexpr double kFine = 1024;

ClipperLib::Path to_path(const Polygon& polygon, double scale) {
  ClipperLib::Path path;
  path.reserve(polygon.size());
  for (const auto& corner : polygon) {
    path.emplace_back(static_cast<ClipperLib::cInt>(corner.x * scale), static_cast<ClipperLib::cInt>(corner.y * scale));
  }
  return path;
}

double cross(const cv::Point2d& a, const cv::Point2d& b) { return a.x * b.y - a.y * b.x; }

/// The side of the line a-b on which a point lies: -1, 0 or 1.
int side(const cv::Point2d& a, const cv::Point2d& b, const cv::Point2d& point) {
  const double value = cross(b - a, point - a);
  return value > 0 ? 1 : value < 0 ? -1 : 0;
}

bool is_between(const cv::Point2d& a, const cv::Point2d& b, const cv::Point2d& point) {
  return std::min(a.x, b.x) <= point.x && point.x <= std::max(a.x, b.x) && std::min(a.y, b.y) <= point.y &&
         point.y <= std::max(a.y, b.y);
}

bool segments_meet(const cv::Point2d& a, const cv::Point2d& b, const cv::Point2d& c, const cv::Point2d& d) {
  const int c_side = side(a, b, c), d_side = side(a, b, d), a_side = side(c, d, a), b_side = side(c, d, b);
  if (c_side * d_side < 0 && a_side * b_side < 0) return true;
  return (c_side == 0 && is_between(a, b, c)) || (d_side == 0 && is_between(a, b, d)) ||
         (a_side == 0 && is_between(c, d, a)) || (b_side == 0 && is_between(c, d, b));
}

/// Removes corners that are equal to the previous one.
Polygon without_repeats(const Polygon& polygon) {
  Polygon corners;
  for (const auto& corner : polygon) {
    if (corners.empty() || corner != corners.back()) corners.push_back(corner);
  }
  while (corners.size() > 1 && corners.front() == corners.back()) corners.pop_back();
  return corners;
}

}  // namespace

double area(const Polygon& polygon) {
  double twice = 0;
  for (std::size_t i = 0; i < polygon.size(); ++i) twice += cross(polygon[i], polygon[(i + 1) % polygon.size()]);
  return std::abs(twice) / 2;
}

double perimeter(const Polygon& polygon) {
  double sum = 0;
  for (std::size_t i = 0; i < polygon.size(); ++i) {
    const auto edge = polygon[(i + 1) % polygon.size()] - polygon[i];
    sum += std::hypot(edge.x, edge.y);
  }
  return sum;
}

cv::Rect2d bounds(const Polygon& polygon) {
  if (polygon.empty()) return {};
  auto low = polygon.front(), high = polygon.front();
  for (const auto& corner : polygon) {
    low = {std::min(low.x, corner.x), std::min(low.y, corner.y)};
    high = {std::max(high.x, corner.x), std::max(high.y, corner.y)};
  }
  return {low.x, low.y, high.x - low.x, high.y - low.y};
}

std::vector<cv::Point> cut_corners(const Polygon& polygon) {
  std::vector<cv::Point> corners;
  corners.reserve(polygon.size());
  for (const auto& corner : polygon) corners.emplace_back(static_cast<int>(corner.x), static_cast<int>(corner.y));
  return corners;
}

std::vector<Polygon> offset(const Polygon& polygon, double distance) {
  ClipperLib::ClipperOffset clipper(kMiterLimit, kArcTolerance);
  clipper.AddPath(to_path(polygon, 1), ClipperLib::jtRound, ClipperLib::etClosedPolygon);
  ClipperLib::Paths paths;
  clipper.Execute(paths, distance);
  std::vector<Polygon> polygons;
  for (const auto& path : paths) {
    auto& corners = polygons.emplace_back();
    for (const auto& corner : path) corners.emplace_back(static_cast<double>(corner.X), static_cast<double>(corner.Y));
  }
  return polygons;
}

bool is_simple(const Polygon& polygon) {
  const auto corners = without_repeats(polygon);
  const auto count = corners.size();
  if (count < 3 || area(corners) == 0) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& a = corners[i];
    const auto& b = corners[(i + 1) % count];
    // The next edge begins at the end of this one: it must not go back along it.
    const auto& after = corners[(i + 2) % count];
    if (side(a, b, after) == 0 && (b - a).dot(after - b) < 0) return false;
    for (std::size_t j = i + 2; j < count; ++j) {
      if (i == 0 && j == count - 1) continue;  // neighbours, too
      if (segments_meet(a, b, corners[j], corners[(j + 1) % count])) return false;
    }
  }
  return true;
}

std::optional<Polygon> untangled(const Polygon& polygon) {
  constexpr double kNearlyAll = 0.9;
  if (is_simple(polygon)) return polygon;
  if (polygon.size() == 4) {
    cv::Point2d mean;
    for (const auto& corner : polygon) mean += corner / 4.0;
    Polygon around = polygon;
    std::ranges::sort(around, {},
                      [&](const cv::Point2d& corner) { return std::atan2(corner.y - mean.y, corner.x - mean.x); });
    std::ranges::rotate(around, std::ranges::find(around, polygon.front()));
    if (is_simple(around)) return around;
  }
  ClipperLib::Paths pieces;
  ClipperLib::SimplifyPolygon(to_path(polygon, kFine), pieces, ClipperLib::pftNonZero);
  double largest = 0, all = 0;
  const ClipperLib::Path* chosen = nullptr;
  for (const auto& piece : pieces) {
    const double size = std::abs(ClipperLib::Area(piece));
    all += size;
    if (size > largest) chosen = &piece;
    largest = std::max(largest, size);
  }
  if (chosen == nullptr || largest < kNearlyAll * all) return std::nullopt;
  Polygon simple;
  for (const auto& corner : *chosen) {
    simple.emplace_back(static_cast<double>(corner.X) / kFine, static_cast<double>(corner.Y) / kFine);
  }
  if (!is_simple(simple)) return std::nullopt;
  return simple;
}

Polygon convex_around(const Polygon& polygon) {
  std::vector<cv::Point2f> corners(polygon.begin(), polygon.end()), hull;
  if (!corners.empty()) cv::convexHull(corners, hull);
  return {hull.begin(), hull.end()};
}

double overlap(const Polygon& a, const Polygon& b) {
  // Most pairs of a picture are far apart.
  const auto box = bounds(a) & bounds(b);
  if (box.empty()) return 0;
  ClipperLib::Clipper clipper;
  clipper.AddPath(to_path(a, kFine), ClipperLib::ptSubject, true);
  clipper.AddPath(to_path(b, kFine), ClipperLib::ptClip, true);
  ClipperLib::Paths paths;
  clipper.Execute(ClipperLib::ctIntersection, paths, ClipperLib::pftNonZero, ClipperLib::pftNonZero);
  double sum = 0;
  for (const auto& path : paths) sum += ClipperLib::Area(path);
  return std::abs(sum) / (kFine * kFine);
}

double distance_to_segment(const cv::Point2d& point, const cv::Point2d& a, const cv::Point2d& b) {
  const auto edge = b - a;
  const double length = edge.dot(edge);
  const double along = length == 0 ? 0 : std::clamp((point - a).dot(edge) / length, 0.0, 1.0);
  const auto away = point - (a + edge * along);
  return std::hypot(away.x, away.y);
}

}  // namespace lockstep::ocr
