// BMP: 24 and 32 bits, and palettes of 1, 4 and 8 bits, uncompressed, rows in either direction.
#include <lockstep/base/error.h>
#include <lockstep/data/files/picture_formats.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

namespace lockstep::data {
namespace {

constexpr std::size_t kFileHeader = 14, kSmallestHeader = 40;

[[noreturn]] void refuse_bmp(std::string_view name, const std::string& why) {
  fail(ErrorKind::data, "picture", "{} is a damaged BMP: {}", name, why);
}

[[noreturn]] void refuse_kind_of_bmp(std::string_view name, const std::string& what) {
  fail(ErrorKind::data, "picture",
       "{} is a BMP {}; those of 24 or 32 bits, or with a palette of 1, 4 or 8 bits, uncompressed, are read: write it "
       "as one of them, or as PNG",
       name, what);
}

struct BmpHeader {
  std::int64_t width, height;
  bool top_first;
  std::size_t bits;
  std::size_t palette, colours;  // offset of the palette, and its number of colours
  std::size_t pixels;            // offset of the pixels
};

/// With 32 bits, the header may define the position of each colour: only the order blue, green, red from the lowest
/// byte is supported.
bool has_usual_masks(std::span<const std::uint8_t> file) {
  constexpr std::array<std::uint32_t, 3> kMasks = {0xff0000, 0xff00, 0xff};
  for (std::size_t i = 0; i < kMasks.size(); ++i) {
    if (little_endian(file, kFileHeader + kSmallestHeader + 4 * i, 4) != kMasks[i]) return false;
  }
  return true;
}

BmpHeader header_of_bmp(std::span<const std::uint8_t> file, std::string_view name) {
  constexpr std::uint32_t kNone = 0, kMasks = 3, kLargestHeader = 1000;
  if (file.size() < kFileHeader + 4) refuse_bmp(name, "its header is cut off");
  const auto size = little_endian(file, kFileHeader, 4);
  if (size < kSmallestHeader)
    refuse_kind_of_bmp(name, fmt::format("with a header of {} bytes, as OS/2 wrote it", size));
  if (size > kLargestHeader) refuse_bmp(name, fmt::format("its header gives its own size as {} bytes", size));
  if (file.size() < kFileHeader + size) refuse_bmp(name, "its header is cut off");
  const auto height = static_cast<std::int32_t>(little_endian(file, 22, 4));
  BmpHeader header{.width = static_cast<std::int32_t>(little_endian(file, 18, 4)),
                   .height = height < 0 ? -std::int64_t{height} : height,
                   .top_first = height < 0,
                   .bits = little_endian(file, 28, 2),
                   .palette = kFileHeader + size,
                   .colours = little_endian(file, 46, 4),
                   .pixels = little_endian(file, 10, 4)};
  const auto compression = little_endian(file, 30, 4);
  const bool is_plain = compression == kNone || (compression == kMasks && header.bits == 32 && has_usual_masks(file));
  if (!is_plain) refuse_kind_of_bmp(name, fmt::format("of {} bits with compression {}", header.bits, compression));
  constexpr std::array<std::size_t, 5> kBits = {1, 4, 8, 24, 32};
  if (std::ranges::find(kBits, header.bits) == kBits.end()) {
    refuse_kind_of_bmp(name, fmt::format("of {} bits", header.bits));
  }
  if (header.bits <= 8) {
    const auto most = std::size_t{1} << header.bits;
    if (header.colours == 0) header.colours = most;
    if (header.colours > most)
      refuse_bmp(name, fmt::format("its header gives a palette of {} colours", header.colours));
    if (header.palette + 4 * header.colours > file.size()) refuse_bmp(name, "its palette is cut off");
  }
  return header;
}

}  // namespace

Picture decode_bmp(std::span<const std::uint8_t> encoded, const DecodeOptions& options, std::string_view name) {
  const auto header = header_of_bmp(encoded, name);
  require_picture_size(header.width, header.height, options.max_pixels, name);
  const auto width = static_cast<std::size_t>(header.width), height = static_cast<std::size_t>(header.height);
  const auto row_bytes = (width * header.bits + 31) / 32 * 4;
  // The last row's padding is sometimes left out.
  const auto needed = row_bytes * (height - 1) + (width * header.bits + 7) / 8;
  if (header.pixels < kFileHeader + kSmallestHeader || header.pixels > encoded.size() ||
      encoded.size() - header.pixels < needed) {
    refuse_bmp(name, fmt::format("it is cut off: {} bytes of pixels, of {}",
                                 encoded.size() - std::min(header.pixels, encoded.size()), needed));
  }
  Picture picture{static_cast<int>(height), static_cast<int>(width), 3, {}};
  picture.pixels.resize(width * height * 3);
  auto out = picture.pixels.begin();
  for (std::size_t y = 0; y < height; ++y) {
    const auto* row = &encoded[header.pixels + row_bytes * (header.top_first ? y : height - 1 - y)];
    for (std::size_t x = 0; x < width; ++x) {
      const std::uint8_t* blue = row + x * header.bits / 8;
      if (header.bits <= 8) {
        const auto shift = 8 - header.bits - x * header.bits % 8;
        const auto index = (std::size_t{*blue} >> shift) & ((std::size_t{1} << header.bits) - 1);
        if (index >= header.colours)
          refuse_bmp(name, fmt::format("a pixel has the colour {} of {}", index, header.colours));
        blue = &encoded[header.palette + 4 * index];
      }
      out = std::reverse_copy(blue, blue + 3, out);
    }
  }
  return picture;
}

}  // namespace lockstep::data
