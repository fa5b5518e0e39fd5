// Arithmetic for engines that count in 32 bits.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::detail {

/// A part of a whole, in elements or bytes.
struct Span {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  bool operator==(const Span&) const = default;
};

/// [0, total) in order, in parts of `most` and a last one of what is left; none for a total of 0.
std::vector<Span> split(std::int64_t total, std::int64_t most);

}  // namespace lockstep::detail
