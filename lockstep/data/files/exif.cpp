// A bounds-checked reader of the EXIF orientation (JPEG segments, TIFF directory), and the turn that it requires.
#include <lockstep/data/files/picture_formats.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

namespace lockstep::data {
namespace {

constexpr int kUpright = 1;

/// Numbers of a TIFF structure in its byte order; nullopt outside of it.
class TiffReader {
 public:
  explicit TiffReader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  bool begin() {
    if (bytes_.size() < 8) return false;
    const bool little = bytes_[0] == 'I' && bytes_[1] == 'I';
    big_ = bytes_[0] == 'M' && bytes_[1] == 'M';
    return (little || big_) && number(2, 2) == 42;
  }

  std::optional<std::uint32_t> number(std::size_t at, std::size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value = value << 8 | bytes_[big_ ? at + i : at + size - 1 - i];
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool big_ = false;
};

}  // namespace

int exif_orientation(std::span<const std::uint8_t> tiff) {
  constexpr std::size_t kEntry = 12;
  constexpr std::uint32_t kOrientation = 0x0112, kShort = 3;
  TiffReader reader(tiff);
  if (!reader.begin()) return kUpright;
  const std::size_t directory = reader.number(4, 4).value_or(0);
  const std::size_t entries = reader.number(directory, 2).value_or(0);
  for (std::size_t i = 0; i < entries; ++i) {
    const auto entry = directory + 2 + i * kEntry;
    const auto tag = reader.number(entry, 2);
    if (!tag) return kUpright;  // cut off
    if (*tag != kOrientation) continue;
    const auto value = reader.number(entry + 8, 2).value_or(kUpright);
    const bool valid = reader.number(entry + 2, 2) == kShort && value >= 1 && value <= 8;
    return valid ? static_cast<int>(value) : kUpright;
  }
  return kUpright;
}

int jpeg_orientation(std::span<const std::uint8_t> jpeg) {
  constexpr std::uint8_t kStartOfScan = 0xda, kApp1 = 0xe1;
  constexpr char kExif[] = "Exif\0";  // and a second zero
  std::size_t at = 2;
  while (at + 4 <= jpeg.size() && jpeg[at] == 0xff) {
    const auto marker = jpeg[at + 1];
    if (marker == 0xff) {  // padding
      ++at;
      continue;
    }
    const std::size_t length = std::size_t{jpeg[at + 2]} << 8 | jpeg[at + 3];  // with its own two bytes
    if (marker == kStartOfScan || length < 2 || length > jpeg.size() - at - 2) break;
    const auto segment = jpeg.subspan(at + 4, length - 2);
    if (marker == kApp1 && segment.size() >= sizeof kExif && std::memcmp(segment.data(), kExif, sizeof kExif) == 0) {
      return exif_orientation(segment.subspan(sizeof kExif));
    }
    at += 2 + length;
  }
  return kUpright;
}

Picture turned(Picture picture, int orientation) {
  if (orientation < 2 || orientation > 8) return picture;
  const bool transposes = orientation >= 5;
  const int height = picture.height, width = picture.width;
  Picture out{transposes ? width : height, transposes ? height : width, picture.channels, {}};
  out.pixels.resize(picture.pixels.size());
  const auto channels = static_cast<std::size_t>(picture.channels);
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x) {
      // The stored pixel that is seen at (y, x).
      int row = transposes ? x : y;
      int column = transposes ? y : x;
      if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7) row = height - 1 - row;
      if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8) column = width - 1 - column;
      const auto from =
          (static_cast<std::size_t>(row) * static_cast<std::size_t>(width) + static_cast<std::size_t>(column)) *
          channels;
      const auto to =
          (static_cast<std::size_t>(y) * static_cast<std::size_t>(out.width) + static_cast<std::size_t>(x)) * channels;
      std::copy_n(picture.pixels.begin() + static_cast<std::ptrdiff_t>(from), channels,
                  out.pixels.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
  return out;
}

}  // namespace lockstep::data
