// WebP, lossy and lossless, by libwebp.
#include <lockstep/base/error.h>
#include <lockstep/data/files/picture_formats.h>

#if LOCKSTEP_HAS_WEBP
#include <webp/decode.h>

#include <algorithm>
#include <cstddef>
#include <string>
#endif

namespace lockstep::data {

#if LOCKSTEP_HAS_WEBP
namespace {

constexpr std::size_t kRiffHeader = 12, kChunkHeader = 8;

[[noreturn]] void refuse_webp(std::string_view name, std::string_view why) {
  fail(ErrorKind::data, "picture", "{} is a damaged WebP: {}", name, why);
}

/// The orientation of the chunk EXIF, which some programs begin with the prefix of JPEG's segment.
int webp_orientation(std::span<const std::uint8_t> file) {
  constexpr std::string_view kBegin("Exif\0\0", 6);
  for (std::size_t at = kRiffHeader; at + kChunkHeader <= file.size();) {
    const std::string_view kind(reinterpret_cast<const char*>(&file[at]), 4);
    const std::size_t size = little_endian(file, at + 4, 4);
    at += kChunkHeader;
    if (size > file.size() - at) break;
    if (kind == "EXIF") {
      const std::string_view text(reinterpret_cast<const char*>(file.data()) + at, size);
      const auto skipped = text.starts_with(kBegin) ? kBegin.size() : 0;
      return exif_orientation(file.subspan(at + skipped, size - skipped));
    }
    at += std::min(size + size % 2, file.size() - at);
  }
  return 1;
}

}  // namespace

Picture decode_webp(std::span<const std::uint8_t> encoded, const DecodeOptions& options, std::string_view name,
                    int& orientation) {
  if (encoded.size() < kRiffHeader || little_endian(encoded, 4, 4) > encoded.size() - kChunkHeader) {
    refuse_webp(name, "it is cut off");
  }
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(encoded.data(), encoded.size(), &features) != VP8_STATUS_OK) {
    refuse_webp(name, "its header is cut off or wrong");
  }
  if (features.has_animation != 0) {
    fail(ErrorKind::data, "picture", "{} is an animated WebP; only still pictures are read", name);
  }
  require_picture_size(features.width, features.height, options.max_pixels, name);
  Picture picture{features.height, features.width, 3, {}};
  const auto row_bytes = static_cast<std::size_t>(features.width) * 3;
  picture.pixels.resize(row_bytes * static_cast<std::size_t>(features.height));
  if (WebPDecodeRGBInto(encoded.data(), encoded.size(), picture.pixels.data(), picture.pixels.size(),
                        static_cast<int>(row_bytes)) == nullptr) {
    refuse_webp(name, "its pixels are cut off or wrong");
  }
  orientation = webp_orientation(encoded);
  return picture;
}
#else
Picture decode_webp(std::span<const std::uint8_t>, const DecodeOptions&, std::string_view name, int&) {
  fail(ErrorKind::unsupported, "picture",
       "{} is a WebP, and this build of Lockstep has no decoder for it: install Debian's libwebp-dev, and build again",
       name);
}
#endif

}  // namespace lockstep::data
