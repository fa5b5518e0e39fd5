// Pictures from files as samples: the common code of data sets of pictures on disk.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/data/files/picture.h>
#include <lockstep/samples/dataset.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::samples {

/// Text field: the name of each sample's file, or its key.
inline constexpr const char* kNames = "names";

/// The keys that these data sets share.
struct PictureOptions {
  std::string color = "rgb";      ///< rgb: three channels; grey: one
  bool orientation = true;        ///< turn pictures by their EXIF orientation
  std::string collate = "stack";  ///< stack, pad or list
  std::int64_t max_pixels = data::kMostPixels, max_scans = data::kMostScans;
  std::string on_error = "fail";  ///< fail or skip
};
/// The keys max_pixels and max_scans, of every data set of picture files.
void describe_picture_limits(ConfigFields& fields, std::int64_t& max_pixels, std::int64_t& max_scans);
void describe_pictures(ConfigFields& fields, PictureOptions& options);

data::DecodeOptions decoding_of(const PictureOptions& options);

/// A batch whose pictures are collated by options.collate.
Batch collate_pictures(std::vector<Sample> samples, const PictureOptions& options);

/// uint8 [H, W, C] that owns the picture's memory.
at::Tensor to_tensor(data::Picture picture);

/// The names of the classes of a classification, in the order of their numbers. A plain value.
class ClassList {
 public:
  ClassList() = default;
  /// Error(config) for a repeated name, naming `key`.
  ClassList(std::vector<std::string> names, std::string_view key);

  const std::vector<std::string>& names() const { return names_; }
  /// Error(data), with the nearest name, for a name that is not in the list.
  std::int64_t number_of(std::string_view name) const;

 private:
  std::vector<std::string> names_;
};

/// The form of a label: its number, the name of its class, or a text for a task that reads text.
struct LabelOptions {
  std::string label = "number";      ///< number, class or text
  std::vector<std::string> classes;  ///< class: the names; empty: the names in the training data, sorted
  std::int64_t num_classes = 0;      ///< number: labels are below it; 0: any
};
void describe_labels(ConfigFields& fields, LabelOptions& options);

/// Adds the label to a sample: `labels`, int64 scalar, or the text `labels`. Error(data) for a text that is not a
/// number, a number outside, an unknown class.
void add_label(Sample& sample, std::string_view label, const LabelOptions& options, const ClassList& classes);

/// A file in `folder`, unless `name` is an absolute path.
std::filesystem::path in_folder(const std::filesystem::path& folder, std::string_view name);

}  // namespace lockstep::samples
