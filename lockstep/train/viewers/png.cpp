// A PNG encoder: 8 bits a channel, rows without filters, one IDAT chunk compressed by zlib.
#include <lockstep/base/error.h>
#include <lockstep/train/viewers/png.h>
#include <zlib.h>

#include <array>
#include <new>
#include <string_view>

namespace lockstep::train {
namespace {

void append_big_endian(std::string& bytes, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
}

const Bytef* as_bytes_of(std::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); }

// Length, type, data, and the CRC of type and data.
void append_chunk(std::string& file, std::string_view type, std::string_view data) {
  append_big_endian(file, static_cast<std::uint32_t>(data.size()));
  const auto begin = file.size();
  file += type;
  file += data;
  const std::string_view checked = std::string_view(file).substr(begin);
  append_big_endian(file, static_cast<std::uint32_t>(crc32_z(0, as_bytes_of(checked), checked.size())));
}

std::string header_of(const Picture& picture) {
  constexpr std::array<char, 5> kColourTypes{0, 0, 4, 2, 6};  // by number of channels
  constexpr char kBits = 8;
  std::string header;
  append_big_endian(header, static_cast<std::uint32_t>(picture.width));
  append_big_endian(header, static_cast<std::uint32_t>(picture.height));
  header += kBits;
  header += kColourTypes[static_cast<std::size_t>(picture.channels)];
  header.append(3, '\0');  // the only compression, the only set of filters, not interlaced
  return header;
}

// Each row follows the number of its filter, 0: none.
std::string rows_of(const Picture& picture) {
  const auto row_bytes = static_cast<std::size_t>(picture.width * picture.channels);
  std::string rows;
  rows.reserve((row_bytes + 1) * static_cast<std::size_t>(picture.height));
  for (auto left = picture.pixels; !left.empty(); left = left.subspan(row_bytes)) {
    rows += '\0';
    rows.append(reinterpret_cast<const char*>(left.data()), row_bytes);
  }
  return rows;
}

std::string compressed(const std::string& text) {
  auto size = compressBound(text.size());
  std::string packed(size, '\0');
  // Given that much room, it fails only without memory.
  if (compress(reinterpret_cast<Bytef*>(packed.data()), &size, as_bytes_of(text), text.size()) != Z_OK) {
    throw std::bad_alloc();
  }
  packed.resize(size);
  return packed;
}

void require_picture(const Picture& picture) {
  constexpr std::int64_t kMostSide = 65535, kMostBytes = std::int64_t{1} << 30;
  const auto [width, height, channels, pixels] = picture;
  const bool sides = width >= 1 && width <= kMostSide && height >= 1 && height <= kMostSide;
  const bool fits = sides && channels >= 1 && channels <= 4 && width * height * channels <= kMostBytes &&
                    static_cast<std::int64_t>(pixels.size()) == width * height * channels;
  if (fits) return;
  fail(
      ErrorKind::invalid_argument, "picture",
      "a picture has sides from 1 to {}, 1 to 4 channels, and width * height * channels bytes, at most {}; this one is "
      "{} wide, {} high, of {} channels, and has {} bytes",
      kMostSide, kMostBytes, width, height, channels, pixels.size());
}

}  // namespace

std::string png_of(const Picture& picture) {
  require_picture(picture);
  std::string file = "\x89PNG\r\n\x1a\n";
  append_chunk(file, "IHDR", header_of(picture));
  append_chunk(file, "IDAT", compressed(rows_of(picture)));
  append_chunk(file, "IEND", "");
  return file;
}

}  // namespace lockstep::train
