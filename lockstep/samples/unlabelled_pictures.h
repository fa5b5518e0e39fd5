// Pictures without labels from a folder or a list, as a data set for predictions.
#pragma once

#include <lockstep/samples/dataset.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::samples {

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
