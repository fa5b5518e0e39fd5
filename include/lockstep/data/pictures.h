// Pictures as bytes: from JPEG, PNG, WebP, BMP and TIFF files; and labelled ones of one shape, held in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

// Labelled pictures of one shape, held in memory as bytes.

/// One picture as stored: `channels` planes of height x width bytes (CHW), row major, and its label.
struct Record {
  std::span<const std::uint8_t> pixels;
  int label = 0;
};

struct PictureShape {
  int channels = 0;
  int height = 0;
  int width = 0;

  friend bool operator==(const PictureShape&, const PictureShape&) = default;
};

/// Values in one picture: channels * height * width.
constexpr std::size_t picture_size(const PictureShape& shape) {
  return static_cast<std::size_t>(shape.channels) * static_cast<std::size_t>(shape.height) *
         static_cast<std::size_t>(shape.width);
}

/// An immutable, randomly accessible set of records, from which samples::from_pictures() makes a data set. Thread-safe.
class Pictures {
 public:
  virtual ~Pictures() = default;
  virtual std::int64_t size() const = 0;
  virtual PictureShape shape() const = 0;
  virtual int num_classes() const = 0;
  virtual Record operator[](std::int64_t index) const = 0;  ///< 0 <= index < size()
};

enum class Split { train, test };

/// "train", "test".
std::string_view name(Split split);

/// "cifar10", "mnist".
std::vector<std::string> dataset_names();

/// Loads a split from `root` (a folder in the original layout: CIFAR-10 binary, or MNIST idx plain or .gz), or from the
/// only such folder up to two levels below it. Error(data) names the file, the record and the broken rule; Error(io) is
/// for an unreadable file, Error(invalid_argument) for a missing file or folder, or an unknown name.
std::shared_ptr<const Pictures> load_pictures(std::string_view name, const std::filesystem::path& root, Split split);

// Pictures of files.

/// Height x width x channels bytes (HWC), row major; 3 channels are red, green, blue, 1 is grey.
struct Picture {
  int height = 0;
  int width = 0;
  int channels = 3;
  std::vector<std::uint8_t> pixels;
};

/// Default limits of pictures. Pictures beyond the limits are rejected before they are decoded.
inline constexpr std::int64_t kMostPixels = 178'956'970, kMostScans = 100;

struct DecodeOptions {
  int channels = 3;         ///< 3: grey pictures get three equal channels; 1: colours become grey (0.299, 0.587, 0.114)
  bool orientation = true;  ///< turn the picture by its EXIF orientation
  std::int64_t max_pixels = kMostPixels;
  std::int64_t max_scans = kMostScans;  ///< of a JPEG; each scan processes the whole picture
};

/// Decodes a JPEG (baseline or progressive; grey, YCbCr, RGB, CMYK, YCCK), a PNG (1 to 16 bits; grey, palette,
/// colours), a WebP without animation, a BMP (24 and 32 bits, palettes, uncompressed) or the first page of a TIFF (up
/// to 8 bits for each sample). 16 bits are rounded to 8, alpha is left out, Adobe's inverted CMYK becomes RGB.
/// Thread-safe.
///
/// Error(data), beginning with `name`, for other formats, damage, a file that is truncated or too short for its
/// picture, and a picture beyond the limits; Error(unsupported), naming the Debian package, where this build lacks the
/// library.
Picture decode_picture(std::span<const std::uint8_t> encoded, const DecodeOptions& options, std::string_view name);

/// Reads and decodes a file. Error(data) naming it, also when there is no such file or it cannot be read.
Picture read_picture(const std::string& file, const DecodeOptions& options);

/// Whether a file's name has the extension of a picture, in upper or lower case: .jpg, .jpeg, .png, .webp, .bmp, .tif,
/// .tiff.
bool has_picture_name(std::string_view file);
/// The list of these extensions, for messages.
std::string picture_endings();

/// A suggestion for the name of a missing file: "; the folder has 'A.JPG'". Names differ by \ in place of /, by blanks
/// around them, by the case of letters, or by how accents are written. Empty: there is no similar name. Looks at the
/// first 10,000 files of the folder at most.
std::string advice_on_missing(const std::filesystem::path& file);

}  // namespace lockstep::data
