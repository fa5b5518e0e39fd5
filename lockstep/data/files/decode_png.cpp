// PNG, by libpng.
#include <lockstep/base/error.h>
#include <lockstep/data/files/picture_formats.h>

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>

namespace lockstep::data {

namespace {

// The data of the functions that libpng calls. libpng leaves a function that failed by longjmp, so no object with a
// destructor may be on the stack between it and setjmp.
struct PngSource {
  std::span<const std::uint8_t> rest;
  char problem[200] = "";
};

void read_png_bytes(png_structp png, png_bytep into, std::size_t size) {
  auto& source = *static_cast<PngSource*>(png_get_io_ptr(png));
  if (size > source.rest.size()) png_error(png, "it is cut off");
  std::memcpy(into, source.rest.data(), size);
  source.rest = source.rest.subspan(size);
}

[[noreturn]] void keep_png_error(png_structp png, png_const_charp message) {
  auto& source = *static_cast<PngSource*>(png_get_error_ptr(png));
  std::strncpy(source.problem, message, sizeof source.problem - 1);
  png_longjmp(png, 1);
}

void ignore_png_warning(png_structp, png_const_charp) {}

struct PngReader {
  explicit PngReader(PngSource& source)
      : png(png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, keep_png_error, ignore_png_warning)),
        info(png != nullptr ? png_create_info_struct(png) : nullptr) {}
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }

  png_structp png;
  png_infop info;
};

bool read_header(PngReader& reader, PngSource& source) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_set_read_fn(reader.png, &source, read_png_bytes);
  png_set_user_limits(reader.png, 0x7fffffff, 0x7fffffff);  // require_picture_size reports it with a better message
  png_set_chunk_malloc_max(reader.png, 64u << 20);
  png_read_info(reader.png, reader.info);
  return true;
}

// To 8 bits of red, green and blue, without alpha.
bool prepare_rows(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_set_expand(reader.png);
  png_set_scale_16(reader.png);
  png_set_strip_alpha(reader.png);
  png_set_gray_to_rgb(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

bool read_rows(PngReader& reader, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_read_image(reader.png, rows);
  png_read_end(reader.png, reader.info);  // a chunk eXIf may come after the pixels
  return true;
}

int orientation_of(const PngReader& reader, int without) {
  png_uint_32 size = 0;
  png_bytep exif = nullptr;
  if (png_get_eXIf_1(reader.png, reader.info, &size, &exif) == 0) return without;
  return exif_orientation({exif, size});
}

[[noreturn]] void refuse_png(std::string_view name, const PngSource& source) {
  fail(ErrorKind::data, "picture", "{} is a damaged PNG: {}", name, source.problem);
}

}  // namespace

Picture decode_png(std::span<const std::uint8_t> encoded, const DecodeOptions& options, std::string_view name,
                   int& orientation) {
  constexpr std::uint64_t kMostOfDeflate = 1032;  // bytes that deflate makes of one
  PngSource source{encoded};
  PngReader reader(source);
  if (reader.info == nullptr) fail(ErrorKind::io, "picture", "libpng cannot start, for lack of memory");
  if (!read_header(reader, source)) refuse_png(name, source);
  const auto width = png_get_image_width(reader.png, reader.info);
  const auto height = png_get_image_height(reader.png, reader.info);
  require_picture_size(width, height, options.max_pixels, name);
  require_bytes_for(png_get_rowbytes(reader.png, reader.info) * height, kMostOfDeflate, encoded.size(), "PNG", name);
  if (!prepare_rows(reader)) refuse_png(name, source);
  if (png_get_rowbytes(reader.png, reader.info) != std::size_t{width} * 3) {
    fail(ErrorKind::data, "picture", "{} is a PNG of a kind that is not read", name);
  }
  Picture picture{static_cast<int>(height), static_cast<int>(width), 3, {}};
  picture.pixels.resize(std::size_t{width} * height * 3);
  std::vector<png_bytep> rows;
  for (png_uint_32 y = 0; y < height; ++y) rows.push_back(&picture.pixels[std::size_t{width} * y * 3]);
  if (!read_rows(reader, rows.data())) refuse_png(name, source);
  orientation = orientation_of(reader, orientation);
  return picture;
}

}  // namespace lockstep::data
