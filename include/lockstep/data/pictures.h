// Labelled pictures of one shape, held in memory as bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

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

}  // namespace lockstep::data
