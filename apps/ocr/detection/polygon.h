// Polygons in pictures: sizes, offsets and overlaps.
#pragma once

#include <opencv2/core.hpp>

#include <optional>
#include <vector>

namespace lockstep::ocr {

/// Corners in pixels, in order around the polygon; x to the right, y down. The first is not repeated at the end.
using Polygon = std::vector<cv::Point2d>;

double area(const Polygon& polygon);
/// The perimeter of the closed polygon.
double perimeter(const Polygon& polygon);

/// The bounding box, from the smallest to the largest coordinate of each axis; {0, 0, 0, 0} without corners.
cv::Rect2d bounds(const Polygon& polygon);

/// The corners with their fractions cut off (toward zero), for drawing and for offsets.
std::vector<cv::Point> cut_corners(const Polygon& polygon);

/// The polygon with each edge moved outward by `distance` (inward if negative) and round corners: Clipper's offset of
/// the cut corners, with whole numbers as a result. None, one or several polygons.
std::vector<Polygon> offset(const Polygon& polygon, double distance);

/// Whether the polygon has an area and no edge crosses or touches another one.
bool is_simple(const Polygon& polygon);

/// A simple polygon that replaces one whose edges cross: the same four corners in the order around them, or the piece
/// that has nearly all (9/10) of what the edges enclose. The polygon itself if it is simple; nullopt if none of these
/// exists.
std::optional<Polygon> untangled(const Polygon& polygon);

/// The smallest convex polygon around the corners.
Polygon convex_around(const Polygon& polygon);

/// The area of the intersection. Exact to about 1/1000 of a pixel of each coordinate.
double overlap(const Polygon& a, const Polygon& b);

/// The distance of a point from the nearest point of the segment a-b.
double distance_to_segment(const cv::Point2d& point, const cv::Point2d& a, const cv::Point2d& b);

}  // namespace lockstep::ocr
