// The combined crops and flips of one axis: which source pixel, or padding, each target pixel shows.
#pragma once

#include <algorithm>

namespace lockstep::data {

/// Target pixel i shows source pixel start + step * i when begin <= i < end, and padding elsewhere.
struct AxisMap {
  int length = 0;
  int start = 0;
  int step = 1;
  int begin = 0;
  int end = 0;

  static AxisMap identity(int length) { return {.length = length, .end = length}; }

  bool is_identity(int source_length) const {
    return length == source_length && start == 0 && step == 1 && begin == 0 && end == length;
  }

  int source(int i) const { return start + step * i; }

  /// Then takes the window of `new_length` that begins at `origin` (which may lie before 0).
  AxisMap cropped(int origin, int new_length) const {
    AxisMap map{.length = new_length, .start = source(origin), .step = step};
    map.begin = std::clamp(begin - origin, 0, new_length);
    map.end = std::clamp(end - origin, map.begin, new_length);
    return map;
  }

  /// Then mirrors.
  AxisMap flipped() const {
    return {.length = length, .start = source(length - 1), .step = -step, .begin = length - end, .end = length - begin};
  }
};

}  // namespace lockstep::data
