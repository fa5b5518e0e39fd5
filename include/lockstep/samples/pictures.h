// Pictures in files as samples: their fields and keys, data sets of folders, lists and LMDB databases, and what a data
// set of one's own needs. Functions are thread-safe.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/data/pictures.h>
#include <lockstep/samples/dataset.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::samples {

// Fields of samples.

inline constexpr const char* kPictures = "pictures";  ///< uint8 [H, W, C] or float32 [C, H, W]
inline constexpr const char* kLabels = "labels";      ///< int64, from 0 to the number of classes - 1; or a text
inline constexpr const char* kNames = "names";        ///< text: the name of each sample's file, or its key

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

/// A picture [H, W, C], uint8 or float32, with another size, of the same dtype: bilinear, with half-pixel centres, as
/// torchvision's resize of tensors. `antialias`: when the picture is reduced, each pixel averages over the area that it
/// covers.
at::Tensor resized(const at::Tensor& picture, std::int64_t height, std::int64_t width, bool antialias);

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

// Data sets: a folder for each class (ROOT/train/CLASS/*.jpg, ROOT/val/CLASS/*.png), a list file with a picture and its
// label on each line, LMDB databases in the layout of CRNN's data, and pictures without labels for predictions.

struct ImageFolderOptions {
  std::string root;
  std::string train = "train";       ///< folder of the training classes, in `root`
  std::string eval = "val";          ///< the same for evaluation; empty: none
  std::vector<std::string> classes;  ///< in the order of their numbers; empty: training's folders, sorted by bytes
  std::string sampling = "each";     ///< each, or balanced: all classes equally often
  PictureOptions pictures;
};
void describe(ConfigFields& fields, ImageFolderOptions& options);

/// A split. Fields: `pictures`, uint8 [H, W, C] of any size; `labels`, int64; the text `names`. Pictures are the files
/// with pictures' names (has_picture_name) below each class's folder, in the order of their paths, sorted by bytes;
/// other files are counted in the log. nullptr for the test split without a folder.
///
/// Error(config) naming the key for a folder that is missing or has no class; Error(data) for a class without pictures
/// and a folder of evaluation that is not a class. `get` throws Error(data) naming the file (data/pictures.h).
std::shared_ptr<const Dataset> load_image_folder(const ImageFolderOptions& options, data::Split split);

struct ImageListOptions {
  std::string root;               ///< folder that the list's names are relative to
  std::string train;              ///< list of the training pictures
  std::string eval;               ///< list for evaluation; empty: none
  std::string separator = "tab";  ///< tab or comma: the first one in a line; space: the last one
  LabelOptions labels;
  std::string sampling = "each";  ///< each, or balanced: all classes equally often
  PictureOptions pictures;
};
void describe(ConfigFields& fields, ImageListOptions& options);

/// A split. Fields: `pictures`, uint8 [H, W, C] of any size; `labels`, int64, or the text `labels`; the text `names`.
/// Lists are UTF-8, with LF or CR LF; empty lines are skipped. nullptr for the test split without a list.
///
/// Error(config) for a list that is missing or empty; Error(data) with file and line for a line without separator, name
/// or label, and an invalid label. `get` throws Error(data) naming the picture.
std::shared_ptr<const Dataset> load_image_list(const ImageListOptions& options, data::Split split);

/// Keys of a database: `num-samples`, a decimal number n as text; for i from 1 to n `image-%09d`, an encoded picture,
/// and `label-%09d`, UTF-8. Thread-safe; copies share the files.
class LmdbPictures {
 public:
  /// The database of a folder, or, if it has none, all databases below it, concatenated in the order of their paths.
  /// Error(config), naming `key_of_path`, for a folder without a database; Error(data) for a damaged one, and for one
  /// whose num-samples is not a number or is larger than the number of its keys.
  LmdbPictures(const std::filesystem::path& path, std::string_view key_of_path);

  std::int64_t size() const;

  // 0 <= index < size(). Error(data) naming file and key for a missing or damaged entry.
  data::Picture picture(std::int64_t index, const data::DecodeOptions& options) const;
  std::string_view label(std::int64_t index) const;

  // For messages, such as "image-000000001 of data.mdb".
  std::string picture_name(std::int64_t index) const;
  std::string label_name(std::int64_t index) const;
  /// The picture's path, as if the database were a folder: data.mdb/image-000000001.
  std::string picture_path(std::int64_t index) const;

 private:
  struct Files;
  std::shared_ptr<const Files> files_;
};

struct ImageLmdbOptions {
  std::string train;  ///< folder with data.mdb, or with such folders below it
  std::string eval;   ///< the same for evaluation; empty: none
  LabelOptions labels{.label = "text", .classes = {}, .num_classes = 0};
  PictureOptions pictures;
};
void describe(ConfigFields& fields, ImageLmdbOptions& options);

/// A split: the databases of LmdbPictures. Fields: `pictures`, uint8 [H, W, C] of any size; `labels`, the
/// text or int64; the text `names`, file and key. nullptr for the test split without a folder.
///
/// Error(config) for a folder without a database; Error(data) naming file and key for an entry that is damaged,
/// missing, or not a number. `get` throws the same.
std::shared_ptr<const Dataset> load_image_lmdb(const ImageLmdbOptions& options, data::Split split);

struct PictureFilesOptions {
  bool subfolders = false;  ///< for a folder: also pictures below it, except hidden ones
  bool skips = false;       ///< Dataset::leaves_out_errors
};

/// The pictures of a folder by their names, in the order of their paths, sorted by bytes, or one file. Fields:
/// `pictures`, uint8 [H, W, 3], and the text `names`, the path. Pictures are turned by their EXIF orientation. Without
/// `subfolders`, a warning counts the folders that are skipped.
///
/// Error(invalid_argument) where there is no such folder, or no picture in it. `get` throws Error(data) naming the
/// file.
std::shared_ptr<const Dataset> load_picture_files(const std::filesystem::path& path,
                                                  const PictureFilesOptions& options = {});

/// The same for these files, whatever their names, in this order. Error(invalid_argument) for none.
std::shared_ptr<const Dataset> listed_picture_files(std::vector<std::string> files, bool skips);

}  // namespace lockstep::samples
