// Checkpoints of MindSpore made by hand, field by field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::test {

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7U) bytes += static_cast<char>(0x80U | (value & 0x7FU));
  return bytes + static_cast<char>(value);
}

inline std::string bytes_field(int number, std::string_view content) {
  return varint(static_cast<std::uint64_t>(number) << 3U | 2U) + varint(content.size()) + std::string(content);
}

/// A message with one value, as the writer appends them.
inline std::string mindspore_value(std::string_view tag, const std::vector<std::uint64_t>& sizes, std::string_view type,
                                   std::string_view content) {
  std::string tensor;
  for (const auto size : sizes) tensor += varint(1U << 3U) + varint(size);
  tensor += bytes_field(2, type) + bytes_field(3, content);
  return bytes_field(1, bytes_field(1, tag) + bytes_field(2, tensor));
}

}  // namespace lockstep::test
