// Pictures as PNG files.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace lockstep::train {

/// A picture of 8 bits per channel: rows from the top, in them pixels from the left, in them the channels, with nothing
/// in between. Channels: 1 grey, 2 grey and alpha, 3 red, green, blue, 4 those and alpha.
struct Picture {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t channels = 0;
  std::span<const std::uint8_t> pixels{};
};

/// The bytes of a PNG file (ISO/IEC 15948). Error(invalid_argument) unless both sides are from 1 to 65535, channels
/// from 1 to 4, and there are width * height * channels pixels, at most 2^30.
std::string png_of(const Picture& picture);

}  // namespace lockstep::train
