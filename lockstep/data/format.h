// The file formats of data sets: how one is recognised and read. Loading and checking share the same reader.
#pragma once

#include <lockstep/data/dataset.h>
#include <lockstep/data/memory_dataset.h>
#include <lockstep/data/problem.h>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::data {

struct DatasetFormat {
  std::string_view name;
  PictureShape shape;
  int num_classes;
  std::string_view folder_holds;  ///< what a right folder holds, for messages

  /// Reads as much of a split as can be read; whatever is wrong is appended to `problems`, and only if nothing is do
  /// the contents make up the split.
  SplitContents (*read)(const std::filesystem::path& root, Split split, Problems& problems);

  /// Whether a file name in a folder shows that it holds this data set.
  bool (*is_file_name)(std::string_view file_name);

  /// What to do where `folder` holds the data set in a form that is not read, empty where it does not; may be null.
  std::string (*other_form)(const std::filesystem::path& folder);
};

/// All formats.
std::span<const DatasetFormat> dataset_formats();

/// Error(invalid_argument) with the nearest valid name.
const DatasetFormat& find_format(std::string_view name);

/// Whether some file in `folder` belongs to the format; false when there is no such folder.
bool holds_files_of(const DatasetFormat& format, const std::filesystem::path& folder);

/// Folders that hold files of the format, up to two levels below `root`: archives unpack into a folder, and some
/// programs put that into folders of their own. In order.
std::vector<std::filesystem::path> folders_below(const DatasetFormat& format, const std::filesystem::path& root);

/// The folder that is meant by `root`: itself, the only one below it that holds files of the format, or the one around
/// it where it names such a file. Error(invalid_argument), with the fix, when there is no folder.
std::filesystem::path find_root(const DatasetFormat& format, const std::filesystem::path& root);

/// The problem of a file that is not there: what belongs into the folder, and a better folder if one is near.
Problem missing_file(const DatasetFormat& format, const std::filesystem::path& file);

}  // namespace lockstep::data
