// JPEG, by libturbojpeg.
#include <lockstep/base/error.h>
#include <lockstep/data/files/picture_formats.h>

#if LOCKSTEP_HAS_TURBOJPEG
#include <turbojpeg.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#endif

namespace lockstep::data {

#if LOCKSTEP_HAS_TURBOJPEG
namespace {

struct Destroy {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Decompressor = std::unique_ptr<void, Destroy>;

[[noreturn]] void refuse_jpeg(std::string_view name, const std::string& why) {
  fail(ErrorKind::data, "picture", "{} is a damaged JPEG: {}", name, why);
}

/// Warnings of the library about pictures that are complete nevertheless.
bool is_harmless(std::string_view warning) {
  for (const auto* part : {"extraneous bytes", "Unsupported JFIF", "Unknown Adobe"}) {
    if (warning.find(part) != std::string_view::npos) return true;
  }
  return false;
}

/// Whether there is a segment APP14 of Adobe, which stores CMYK inverted.
bool has_adobe_marker(std::span<const std::uint8_t> jpeg) {
  constexpr std::string_view kMark = "Adobe";
  for (std::size_t at = 2; at + 4 <= jpeg.size() && jpeg[at] == 0xff && jpeg[at + 1] != 0xda;) {
    const std::size_t length = std::size_t{jpeg[at + 2]} << 8 | jpeg[at + 3];
    if (jpeg[at + 1] == 0xee && at + 4 + kMark.size() <= jpeg.size() &&
        std::string_view(reinterpret_cast<const char*>(&jpeg[at + 4]), kMark.size()) == kMark) {
      return true;
    }
    at += jpeg[at + 1] == 0xff ? 1 : 2 + length;
  }
  return false;
}

/// The properties of a JPEG from the segments before its pixels and between its scans.
struct JpegOutline {
  std::int64_t scans = 0;
  bool arithmetic = false;  // a code that can need less than a bit for many pixels
};

JpegOutline outline_of(std::span<const std::uint8_t> jpeg) {
  JpegOutline outline;
  bool in_pixels = false;
  for (std::size_t at = 2; at + 4 <= jpeg.size();) {
    if (jpeg[at] != 0xff) {
      const void* next = in_pixels ? std::memchr(&jpeg[at], 0xff, jpeg.size() - at) : nullptr;
      if (next == nullptr) break;
      at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(next) - jpeg.data());
      continue;
    }
    const auto marker = jpeg[at + 1];
    if (marker == 0xd9) break;  // the end
    if (marker == 0xff) {
      ++at;
    } else if (marker == 0x00 || (marker >= 0xd0 && marker <= 0xd7)) {  // within pixels
      at += 2;
    } else {
      in_pixels = marker == 0xda;
      outline.scans += in_pixels ? 1 : 0;
      outline.arithmetic |= marker >= 0xc9 && marker <= 0xcf && marker != 0xcc;
      at += 2 + (std::size_t{jpeg[at + 2]} << 8 | jpeg[at + 3]);
    }
  }
  return outline;
}

void require_scans(const JpegOutline& outline, std::int64_t most, std::string_view name) {
  if (outline.scans <= most) return;
  fail(ErrorKind::data, "picture",
       "{} has {} scans, each of which goes over the whole picture; up to {} are read; a data set's max_scans is the "
       "limit",
       name, outline.scans, most);
}

/// Each block of 8 x 8 pixels takes at least a bit, so a short file with a large picture is truncated. The check needs
/// no memory for the pixels.
void require_jpeg_length(const JpegOutline& outline, std::int64_t pixels, std::size_t bytes, std::string_view name) {
  constexpr std::int64_t kMostPixelsOfAByte = std::int64_t{64} * 8;
  if (outline.arithmetic || pixels / kMostPixelsOfAByte <= static_cast<std::int64_t>(bytes)) return;
  refuse_jpeg(name, fmt::format("its {} bytes are too few for its {} pixels", bytes, pixels));
}

std::vector<std::uint8_t> rgb_of_cmyk(const std::vector<std::uint8_t>& cmyk, bool inverted) {
  std::vector<std::uint8_t> rgb;
  rgb.reserve(cmyk.size() / 4 * 3);
  for (std::size_t i = 0; i + 3 < cmyk.size(); i += 4) {
    const auto ink_free = [&](std::size_t at) -> unsigned { return inverted ? cmyk[at] : 255u - cmyk[at]; };
    for (std::size_t c = 0; c < 3; ++c) {
      rgb.push_back(static_cast<std::uint8_t>((ink_free(i + c) * ink_free(i + 3) + 127) / 255));
    }
  }
  return rgb;
}

}  // namespace

Picture decode_jpeg(std::span<const std::uint8_t> encoded, const DecodeOptions& options, std::string_view name) {
  const Decompressor handle(tjInitDecompress());
  if (!handle) fail(ErrorKind::io, "picture", "libturbojpeg cannot start: {}", tjGetErrorStr2(nullptr));
  int width = 0, height = 0, sampling = 0, colours = 0;
  if (tjDecompressHeader3(handle.get(), encoded.data(), encoded.size(), &width, &height, &sampling, &colours) != 0) {
    refuse_jpeg(name, tjGetErrorStr2(handle.get()));
  }
  if (width < 1 || height < 1) refuse_jpeg(name, "its header is cut off");
  require_picture_size(width, height, options.max_pixels, name);
  const auto outline = outline_of(encoded);
  require_scans(outline, options.max_scans, name);
  require_jpeg_length(outline, std::int64_t{width} * height, encoded.size(), name);
  const bool is_cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK;
  const int format = is_cmyk ? TJPF_CMYK : TJPF_RGB;
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) *
                                   static_cast<std::size_t>(tjPixelSize[format]));
  if (tjDecompress2(handle.get(), encoded.data(), encoded.size(), pixels.data(), width, 0, height, format,
                    TJFLAG_ACCURATEDCT) != 0 &&
      (tjGetErrorCode(handle.get()) != TJERR_WARNING || !is_harmless(tjGetErrorStr2(handle.get())))) {
    refuse_jpeg(name, tjGetErrorStr2(handle.get()));
  }
  if (is_cmyk) pixels = rgb_of_cmyk(pixels, has_adobe_marker(encoded));
  return {height, width, 3, std::move(pixels)};
}
#else
Picture decode_jpeg(std::span<const std::uint8_t>, const DecodeOptions&, std::string_view name) {
  fail(ErrorKind::unsupported, "picture",
       "{} is a JPEG, and this build of Lockstep has no decoder for it: install Debian's libturbojpeg0-dev, and build "
       "again",
       name);
}
#endif

}  // namespace lockstep::data
