// The SVG elements of charts, as text.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep::train::svg {

struct Point {
  double x = 0;
  double y = 0;
};

/// `attributes` are further attributes in SVG's syntax, e.g. `stroke="#444444"`.
std::string line(Point from, Point to, std::string_view attributes);
std::string polyline(std::span<const Point> points, std::string_view color, double width);
std::string dot(Point center, std::string_view color);

/// `anchor` is start, middle or end; `words` are escaped.
std::string text(Point at, std::string_view anchor, std::string_view words, std::string_view attributes = "");

/// A whole file of `width` x `height` pixels with a white ground.
std::string picture(double width, double height, std::string_view content);

}  // namespace lockstep::train::svg
