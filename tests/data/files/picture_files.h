// Pictures written by the libraries themselves, for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::test {

/// RGB, a soft pattern that depends on `shade`.
std::vector<std::uint8_t> pattern(int width, int height, int shade);

std::string jpeg_of(const std::vector<std::uint8_t>& rgb, int width, int height);
/// In several scans.
std::string progressive_jpeg_of(const std::vector<std::uint8_t>& rgb, int width, int height);
std::string png_of(const std::vector<std::uint8_t>& rgb, int width, int height);
/// Lossless.
std::string webp_of(const std::vector<std::uint8_t>& rgb, int width, int height);
/// 24 bits, the last row first.
std::string bmp_of(const std::vector<std::uint8_t>& rgb, int width, int height);

struct TiffForm {
  int compression = 5;  ///< LZW
  int bits = 8;         ///< of each sample
  int orientation = 1;
  int tile = 0;             ///< a tile's sides, which are multiples of 16; 0: no tiles
  std::uint16_t alpha = 2;  ///< of a fourth channel: 1 the colours are multiplied by it, 2 they are not
  bool separate = false;    ///< a plane for each channel
};
std::string tiff_of(const std::vector<std::uint8_t>& samples, int width, int height, const TiffForm& form = {});

void write_bytes(const std::filesystem::path& file, const std::string& bytes);

}  // namespace lockstep::test
