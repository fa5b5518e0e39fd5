// The decoders behind data/pictures.h, one for each format and library, and the EXIF orientation: the position of the
// camera.
#pragma once

#include <lockstep/data/pictures.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep::data {

/// Error(data) for a picture without pixels or with more than `most`.
void require_picture_size(std::int64_t width, std::int64_t height, std::int64_t most, std::string_view name);

/// Error(data) for a file of that format that is too short for its pixels, where one of its bytes gives at most `most`
/// bytes of them. Needs no memory for the pixels.
void require_bytes_for(std::uint64_t pixel_bytes, std::uint64_t most, std::size_t file_bytes, std::string_view format,
                       std::string_view name);

/// A number of `size` bytes; bytes outside of the file count as 0.
std::uint32_t little_endian(std::span<const std::uint8_t> file, std::size_t at, std::size_t size);

/// RGB, not turned. Errors as decode_picture's.
Picture decode_jpeg(std::span<const std::uint8_t> encoded, const DecodeOptions& options, std::string_view name);

/// RGB, not turned; `orientation` is set from the chunk eXIf, and not changed without one.
Picture decode_png(std::span<const std::uint8_t> encoded, const DecodeOptions& options, std::string_view name,
                   int& orientation);

/// RGB. A BMP has no orientation.
Picture decode_bmp(std::span<const std::uint8_t> encoded, const DecodeOptions& options, std::string_view name);

/// RGB, not turned; `orientation` is set from the chunk EXIF. Error(data) for an animation, too.
Picture decode_webp(std::span<const std::uint8_t> encoded, const DecodeOptions& options, std::string_view name,
                    int& orientation);

/// The first page as RGB, not turned; `orientation` is set from the page's tag.
Picture decode_tiff(std::span<const std::uint8_t> encoded, const DecodeOptions& options, std::string_view name,
                    int& orientation);

/// The orientation, 1 to 8, in the TIFF structure of EXIF (tag 0x0112); 1, upright, where there is none or it is
/// damaged.
int exif_orientation(std::span<const std::uint8_t> tiff);

/// The same of the first EXIF segment of a JPEG.
int jpeg_orientation(std::span<const std::uint8_t> jpeg);

/// The picture in its upright form: 2 mirrored, 3 turned by 180 degrees, 4 upside down, 5 transposed, 6 turned right by
/// 90 degrees, 7 transposed across the other diagonal, 8 turned left by 90 degrees; anything else unchanged.
Picture turned(Picture picture, int orientation);

}  // namespace lockstep::data
