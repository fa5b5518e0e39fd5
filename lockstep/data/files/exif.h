// The EXIF orientation: the position of the camera.
#pragma once

#include <lockstep/data/pictures.h>

#include <cstdint>
#include <span>

namespace lockstep::data {

/// The orientation, 1 to 8, in the TIFF structure of EXIF (tag 0x0112); 1, upright, where there is none or it is
/// damaged.
int exif_orientation(std::span<const std::uint8_t> tiff);

/// The same of the first EXIF segment of a JPEG.
int jpeg_orientation(std::span<const std::uint8_t> jpeg);

/// The picture in its upright form: 2 mirrored, 3 turned by 180 degrees, 4 upside down, 5 transposed, 6 turned right by
/// 90 degrees, 7 transposed across the other diagonal, 8 turned left by 90 degrees; anything else unchanged.
Picture turned(Picture picture, int orientation);

}  // namespace lockstep::data
