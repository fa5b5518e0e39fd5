// The file formats of data sets: recognition and reading, what is read, and what is wrong with it. Loading and checking
// use the same reader.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/data/pictures.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

struct Problem {
  std::filesystem::path file;
  std::int64_t record = -1;  ///< counted from 0 within the file; -1: the file as a whole
  std::string rule;          ///< the rule that is broken, with the actual values
  ErrorKind kind = ErrorKind::data;
};

/// "dir/data_batch_1.bin: record 17: ...".
std::string to_text(const Problem& problem);

using Problems = std::vector<Problem>;

/// The records of one split. Record i has the i-th `channels * height * width` bytes (CHW) of `pixels`, and labels[i].
struct SplitContents {
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
};

/// Makes a data set from contents in memory. Error(data) when there are no records, when the number of bytes does not
/// match the number of labels, or when a label is not below `num_classes`.
std::shared_ptr<const Pictures> make_memory_pictures(PictureShape shape, int num_classes, SplitContents contents);

struct DatasetFormat {
  std::string_view name;
  std::string_view doc;  ///< one line
  PictureShape shape;
  int num_classes;
  std::string_view class_names{};  ///< in the order of their numbers, with a blank between; empty: they have none
  std::string_view folder_holds;   ///< the files of a correct folder, for messages

  /// Reads as much of a split as possible, and appends all problems to `problems`. The contents are valid only if there
  /// are none.
  SplitContents (*read)(const std::filesystem::path& root, Split split, Problems& problems);

  /// Whether a file name belongs to this data set.
  bool (*is_file_name)(std::string_view file_name);

  /// Advice when `folder` holds the data set in an unsupported form; empty when it does not. May be null.
  std::string (*other_form)(const std::filesystem::path& folder);
};

/// All formats.
std::span<const DatasetFormat> dataset_formats();

/// Error(invalid_argument) with the nearest valid name.
const DatasetFormat& find_format(std::string_view name);

/// Whether a file in `folder` belongs to the format; false when there is no such folder.
bool holds_files_of(const DatasetFormat& format, const std::filesystem::path& folder);

/// Folders that hold files of the format, up to two levels below `root`: archives unpack into a folder, and some
/// programs put that folder into another one. Sorted.
std::vector<std::filesystem::path> folders_below(const DatasetFormat& format, const std::filesystem::path& root);

/// The data set's folder for `root`: `root` itself, the only folder below it that holds files of the format, or, if
/// `root` is such a file, its folder. Error(invalid_argument), with the fix, when there is no folder.
std::filesystem::path find_root(const DatasetFormat& format, const std::filesystem::path& root);

/// The problem of a missing file: the expected files of the folder, and a better folder if one is near.
Problem missing_file(const DatasetFormat& format, const std::filesystem::path& file);

}  // namespace lockstep::data
