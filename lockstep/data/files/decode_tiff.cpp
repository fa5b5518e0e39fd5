// TIFF, by libtiff: the first page, up to 8 bits for each sample.
#include <lockstep/base/error.h>
#include <lockstep/data/files/picture_formats.h>

#if LOCKSTEP_HAS_TIFF
#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#endif

namespace lockstep::data {

#if LOCKSTEP_HAS_TIFF
namespace {

/// The data of the functions that libtiff calls. These functions must not throw.
struct TiffSource {
  std::span<const std::uint8_t> bytes;
  std::uint64_t at = 0;
  bool in_pixels = false;  // warnings about pixels are damage; those about unknown tags are not
  std::array<char, 200> problem{};
};

TiffSource& source_of(thandle_t handle) { return *static_cast<TiffSource*>(handle); }

tmsize_t read_tiff_bytes(thandle_t handle, void* into, tmsize_t size) {
  auto& source = source_of(handle);
  const auto left = source.bytes.size() - std::min<std::uint64_t>(source.at, source.bytes.size());
  const auto taken = std::min<std::size_t>(left, static_cast<std::size_t>(std::max<tmsize_t>(size, 0)));
  if (taken > 0) std::memcpy(into, &source.bytes[source.at], taken);
  source.at += taken;
  return static_cast<tmsize_t>(taken);
}

tmsize_t write_no_tiff(thandle_t, void*, tmsize_t) { return -1; }

toff_t seek_in_tiff(thandle_t handle, toff_t offset, int whence) {
  auto& source = source_of(handle);
  const std::uint64_t from = whence == SEEK_CUR ? source.at : whence == SEEK_END ? source.bytes.size() : 0;
  return source.at = from + offset;
}

int close_no_tiff(thandle_t) { return 0; }
toff_t size_of_tiff(thandle_t handle) { return source_of(handle).bytes.size(); }

/// libtiff only reads from this memory. (Without the mapping, libtiff 4.5 rejects small tiles that are not compressed.)
int map_tiff(thandle_t handle, void** begin, toff_t* size) {
  const auto bytes = source_of(handle).bytes;
  *begin = const_cast<std::uint8_t*>(bytes.data());
  *size = bytes.size();
  return 1;
}

void unmap_no_tiff(thandle_t, void*, toff_t) {}

void keep_tiff_problem(TiffSource& source, const char* format, std::va_list arguments) {
  if (source.problem[0] == '\0') std::vsnprintf(source.problem.data(), source.problem.size(), format, arguments);
}

int hear_tiff_error(TIFF*, void* source, const char*, const char* format, std::va_list arguments) {
  keep_tiff_problem(*static_cast<TiffSource*>(source), format, arguments);
  return 1;  // the process's own handler is not called
}

int hear_tiff_warning(TIFF* tiff, void* source, const char* module, const char* format, std::va_list arguments) {
  if (!static_cast<TiffSource*>(source)->in_pixels) return 1;
  return hear_tiff_error(tiff, source, module, format, arguments);
}

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};
using OpenTiff = std::unique_ptr<TIFF, CloseTiff>;

struct FreeTiffOptions {
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};

OpenTiff open_tiff(TiffSource& source, std::int64_t max_pixels) {
  constexpr tmsize_t kTables = tmsize_t{64} << 20;
  const std::unique_ptr<TIFFOpenOptions, FreeTiffOptions> options(TIFFOpenOptionsAlloc());
  if (!options) fail(ErrorKind::io, "picture", "libtiff cannot start, for lack of memory");
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), hear_tiff_error, &source);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), hear_tiff_warning, &source);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kTables + 4 * std::min<std::int64_t>(max_pixels, 1 << 30));
  return OpenTiff(TIFFClientOpenExt("picture", "r", &source, read_tiff_bytes, write_no_tiff, seek_in_tiff,
                                    close_no_tiff, size_of_tiff, map_tiff, unmap_no_tiff, options.get()));
}

[[noreturn]] void refuse_tiff(std::string_view name, const TiffSource& source, std::string_view otherwise) {
  const std::string_view problem = source.problem.data();
  fail(ErrorKind::data, "picture", "{} is a damaged TIFF: {}", name, problem.empty() ? otherwise : problem);
}

template <typename Number>
Number tiff_field(TIFF* tiff, std::uint32_t tag, Number without) {
  Number value{};
  return TIFFGetFieldDefaulted(tiff, tag, &value) == 1 ? value : without;
}

/// Error(data) for an unsupported kind of picture, such as one of more than 8 bits per sample.
void require_kind_of_tiff(TIFF* tiff, std::string_view name) {
  const auto refuse = [name](const std::string& what) {
    fail(ErrorKind::data, "picture",
         "{} is a TIFF {}; black and white, grey, colours, palettes and CMYK of up to 8 bits for each sample are read: "
         "write it as one of them, or as PNG",
         name, what);
  };
  const auto bits = tiff_field<std::uint16_t>(tiff, TIFFTAG_BITSPERSAMPLE, 1);
  if (bits > 8) refuse(fmt::format("of {} bits for each sample", bits));
  const auto format = tiff_field<std::uint16_t>(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
  if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID)
    refuse("of samples that are not whole numbers from 0");
  std::uint16_t photometric = 0;
  if (TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &photometric) != 1) refuse("without a photometric interpretation");
  constexpr std::array<std::uint16_t, 6> kPhotometric = {PHOTOMETRIC_MINISWHITE, PHOTOMETRIC_MINISBLACK,
                                                         PHOTOMETRIC_RGB,        PHOTOMETRIC_PALETTE,
                                                         PHOTOMETRIC_SEPARATED,  PHOTOMETRIC_YCBCR};
  if (std::ranges::find(kPhotometric, photometric) == kPhotometric.end()) {
    refuse(fmt::format("with the photometric interpretation {}", photometric));
  }
  const auto compression = tiff_field<std::uint16_t>(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  if (compression == COMPRESSION_OJPEG || TIFFIsCODECConfigured(compression) != 1) {
    refuse(fmt::format("with compression {}", compression));
  }
}

/// The maximum number of decoded bytes per byte of the file; 0 if there is no bound.
std::uint64_t most_of_a_tiff_byte(std::uint16_t compression) {
  switch (compression) {
    case COMPRESSION_NONE: return 1;
    case COMPRESSION_PACKBITS: return 64;
    case COMPRESSION_DEFLATE:
    case COMPRESSION_ADOBE_DEFLATE: return 1032;
    case COMPRESSION_LZW: return 4096;
    default: return 0;
  }
}

/// A shorter file is truncated. The check needs no memory for the pixels.
void require_tiff_length(TIFF* tiff, std::uint64_t height, std::size_t file_bytes, std::string_view name) {
  const auto most = most_of_a_tiff_byte(tiff_field<std::uint16_t>(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE));
  const auto pixel_bytes = static_cast<std::uint64_t>(std::max<tmsize_t>(TIFFScanlineSize(tiff), 0)) * height;
  if (most != 0) require_bytes_for(pixel_bytes, most, file_bytes, "TIFF", name);
}

/// Divides colours by the alpha with which they were multiplied.
std::uint8_t without_alpha(std::uint32_t colour, std::uint32_t alpha) {
  if (alpha == 0) return 0;
  return static_cast<std::uint8_t>(std::min(255u, colour * 255 / alpha));
}

/// Whether the first extra sample is an alpha by which the colours are multiplied. libtiff would multiply the others,
/// so the decoder declares all of them as multiplied.
bool take_alpha_as_multiplied(TIFF* tiff) {
  std::uint16_t count = 0;
  std::uint16_t* kinds = nullptr;
  if (TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &count, &kinds) != 1 || count == 0) return false;
  if (kinds[0] != EXTRASAMPLE_UNASSALPHA) return kinds[0] == EXTRASAMPLE_ASSOCALPHA;
  std::vector<std::uint16_t> all(kinds, kinds + count);
  all[0] = EXTRASAMPLE_ASSOCALPHA;
  TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, count, all.data());
  return false;
}

struct EndTiffImage {
  void operator()(TIFFRGBAImage* image) const { TIFFRGBAImageEnd(image); }
};

}  // namespace

Picture decode_tiff(std::span<const std::uint8_t> encoded, const DecodeOptions& options, std::string_view name,
                    int& orientation) {
  TiffSource source{encoded};
  const auto tiff = open_tiff(source, options.max_pixels);
  if (!tiff) refuse_tiff(name, source, "its header is cut off or wrong");
  const auto width = tiff_field<std::uint32_t>(tiff.get(), TIFFTAG_IMAGEWIDTH, 0);
  const auto height = tiff_field<std::uint32_t>(tiff.get(), TIFFTAG_IMAGELENGTH, 0);
  require_picture_size(width, height, options.max_pixels, name);
  require_kind_of_tiff(tiff.get(), name);
  if (TIFFIsTiled(tiff.get()) != 0) {
    require_picture_size(tiff_field<std::uint32_t>(tiff.get(), TIFFTAG_TILEWIDTH, 0),
                         tiff_field<std::uint32_t>(tiff.get(), TIFFTAG_TILELENGTH, 0), options.max_pixels, name);
  }
  require_tiff_length(tiff.get(), height, encoded.size(), name);
  const bool is_multiplied = take_alpha_as_multiplied(tiff.get());
  TIFFRGBAImage image{};
  std::array<char, 1024> why{};
  if (TIFFRGBAImageBegin(&image, tiff.get(), 1, why.data()) == 0) {
    refuse_tiff(name, source, why.data());
  }
  const std::unique_ptr<TIFFRGBAImage, EndTiffImage> end(&image);
  image.req_orientation = image.orientation;  // as stored: turned() turns it
  std::vector<std::uint32_t> raster(std::size_t{width} * height);
  source.in_pixels = true;
  source.problem[0] = '\0';
  const bool is_read = TIFFRGBAImageGet(&image, raster.data(), width, height) != 0;
  if (!is_read || source.problem[0] != '\0') refuse_tiff(name, source, "its pixels are cut off or wrong");
  Picture picture{static_cast<int>(height), static_cast<int>(width), 3, {}};
  picture.pixels.resize(raster.size() * 3);
  auto out = picture.pixels.begin();
  for (const auto pixel : raster) {
    for (const auto colour : {TIFFGetR(pixel), TIFFGetG(pixel), TIFFGetB(pixel)}) {
      *out++ = is_multiplied ? without_alpha(colour, TIFFGetA(pixel)) : static_cast<std::uint8_t>(colour);
    }
  }
  orientation = tiff_field<std::uint16_t>(tiff.get(), TIFFTAG_ORIENTATION, 1);
  return picture;
}
#else
Picture decode_tiff(std::span<const std::uint8_t>, const DecodeOptions&, std::string_view name, int&) {
  fail(ErrorKind::unsupported, "picture",
       "{} is a TIFF, and this build of Lockstep has no decoder for it: install Debian's libtiff-dev (4.5 or later), "
       "and build again",
       name);
}
#endif

}  // namespace lockstep::data
