// PNG files by libpng's simplified interface, after a check of what it takes as true.
#include <lockstep/base/error.h>
#include <lockstep/train/viewers/png.h>
#include <png.h>

#include <array>
#include <new>

namespace lockstep::train {
namespace {

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
  constexpr std::array<png_uint_32, 5> kFormats{0, PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = kFormats[static_cast<std::size_t>(picture.channels)];
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string file(size, '\0');
  // Given that much room, it fails only without memory.
  if (png_image_write_to_memory(&image, file.data(), &size, 0, picture.pixels.data(), 0, nullptr) == 0) {
    throw std::bad_alloc();
  }
  file.resize(size);
  return file;
}

}  // namespace lockstep::train
