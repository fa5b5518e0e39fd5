// A folder of pictures by class as a data set: ROOT/train/CLASS/*.jpg, ROOT/val/CLASS/*.png.
#pragma once

#include <lockstep/data/pictures.h>
#include <lockstep/samples/picture_sample.h>

#include <memory>
#include <string>
#include <vector>

namespace lockstep::samples {

struct ImageFolderOptions {
  std::string root;
  std::string train = "train";       ///< folder of the training classes, in `root`
  std::string eval = "val";          ///< the same for evaluation; empty: none
  std::vector<std::string> classes;  ///< in the order of their numbers; empty: training's folders, sorted by bytes
  std::string sampling = "each";     ///< each or balanced (balanced.h)
  PictureOptions pictures;
};
void describe(ConfigFields& fields, ImageFolderOptions& options);

/// A split. Fields: `pictures`, uint8 [H, W, C] of any size; `labels`, int64; the text `names`. Pictures are the files
/// with pictures' names (has_picture_name) below each class's folder, in the order of their paths, sorted by bytes;
/// other files are counted in the log. nullptr for the test split without a folder.
///
/// Error(config) naming the key for a folder that is missing or has no class; Error(data) for a class without pictures
/// and a folder of evaluation that is not a class. `get` throws Error(data) naming the file (data/files/picture.h).
std::shared_ptr<const Dataset> load_image_folder(const ImageFolderOptions& options, data::Split split);

}  // namespace lockstep::samples
