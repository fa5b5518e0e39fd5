// Lengths in elements, rounded up to cache lines, so that adjacent tensors share no cache line.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::mirrored {

inline std::int64_t line_elements(std::int64_t element_bytes) {
  constexpr std::int64_t kCacheLine = 64;
  return std::max<std::int64_t>(1, kCacheLine / element_bytes);
}

inline std::int64_t round_up_to_line(std::int64_t elements, std::int64_t element_bytes) {
  const std::int64_t line = line_elements(element_bytes);
  return (elements + line - 1) / line * line;
}

}  // namespace lockstep::mirrored
