// The drawing of synthetic pictures. Uses only +, -, *, / on doubles and integer arithmetic, so that the bytes do not
// depend on a math library (this folder is compiled with -ffp-contract=off).
#pragma once

#include <lockstep/data/pictures.h>

#include <algorithm>
#include <cstdint>
#include <span>

namespace lockstep::data {

/// The class of record `index`: each block of ten records holds every class once, in a random order.
int synthetic_label(std::uint64_t seed, Split split, std::int64_t index);

/// Draws record `index` of class `label`: 3 x 32 x 32 bytes (CHW).
void draw_cifar10(std::uint64_t seed, Split split, std::int64_t index, int label, std::span<std::uint8_t> pixels);

/// Draws 28 x 28 bytes: a bright digit on black.
void draw_mnist(std::uint64_t seed, Split split, std::int64_t index, int label, std::span<std::uint8_t> pixels);

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
