// The taps of a bilinear resize along one axis: the two source pixels of each target pixel, and their weights.
#pragma once

#include <algorithm>
#include <vector>

namespace lockstep::data {

struct ResizeTap {
  int first;
  int second;          ///< first + 1, or first at the far edge
  float first_weight;  ///< 1 - second_weight
  float second_weight;
};

/// Half-pixel centres: the centre of target pixel i is at (i + 0.5) * source / target - 0.5, clamped to the picture.
inline std::vector<ResizeTap> resize_axis(int source, int target) {
  std::vector<ResizeTap> taps;
  taps.reserve(static_cast<std::size_t>(target));
  for (int i = 0; i < target; ++i) {
    const double centre = std::max(0.0, (i + 0.5) * source / target - 0.5);
    const int first = std::min(static_cast<int>(centre), source - 1);
    const auto weight = static_cast<float>(centre - first);
    taps.push_back({first, std::min(first + 1, source - 1), 1 - weight, weight});
  }
  return taps;
}

/// Linear interpolation of two values. The reference and the fused implementation both call it, so their rounding is
/// equal.
inline float blend(float first, float first_weight, float second, float second_weight) {
  return first * first_weight + second * second_weight;
}

/// Rounds to the nearest integer, halves up. For 0 <= value < 2^24.
inline int round_half_up(float value) {
  constexpr float kHalf = 0.5F;
  return static_cast<int>(value + kHalf);
}

}  // namespace lockstep::data
