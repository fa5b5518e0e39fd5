// Geometry for drawing synthetic pictures.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::data {

struct Point {
  double x = 0;
  double y = 0;
};

/// A rotation without sine and cosine: given by the tangent t of half the angle, which is a rotation for every t.
struct Turn {
  explicit Turn(double half_tangent)
      : cosine((1 - half_tangent * half_tangent) / (1 + half_tangent * half_tangent)),
        sine(2 * half_tangent / (1 + half_tangent * half_tangent)) {}

  Point operator()(Point p) const { return {cosine * p.x - sine * p.y, sine * p.x + cosine * p.y}; }

  double cosine;
  double sine;
};

inline double magnitude(double x) { return x < 0 ? -x : x; }

inline double unit(double x) { return std::clamp(x, 0.0, 1.0); }

inline std::uint8_t to_byte(double x) { return static_cast<std::uint8_t>(std::clamp(x + 0.5, 0.0, 255.0)); }

}  // namespace lockstep::data
