// The combined crops and flips along one axis: the source pixel, or padding, of each target pixel.
#pragma once

#include <algorithm>

namespace lockstep::data {

/// Target pixel i is source pixel start + step * i when begin <= i < end, and padding otherwise.
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

  /// This map followed by a crop to the window of `new_length` that begins at `origin` (which may be negative).
  AxisMap cropped(int origin, int new_length) const {
    AxisMap map{.length = new_length, .start = source(origin), .step = step};
    map.begin = std::clamp(begin - origin, 0, new_length);
    map.end = std::clamp(end - origin, map.begin, new_length);
    return map;
  }

  /// This map followed by a flip.
  AxisMap flipped() const {
    return {.length = length, .start = source(length - 1), .step = -step, .begin = length - end, .end = length - begin};
  }
};

}  // namespace lockstep::data
