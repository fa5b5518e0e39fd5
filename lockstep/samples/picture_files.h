// Pictures without labels, as a data set: those of a folder, for predictions.
#pragma once

#include <lockstep/samples/dataset.h>

#include <filesystem>
#include <memory>

namespace lockstep::samples {

/// The files named .jpg, .jpeg or .png of a folder, in the order of their names, sorted by bytes, or one file. Fields:
/// `pictures`, uint8 [H, W, 3], and the text `names`, the path. Pictures are turned as EXIF says.
///
/// Error(invalid_argument) where there is no such folder, or no picture in it. `get` throws Error(data) naming the
/// file.
std::shared_ptr<const Dataset> load_picture_files(const std::filesystem::path& path);

}  // namespace lockstep::samples
