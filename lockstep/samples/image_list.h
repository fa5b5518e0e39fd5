// Pictures in a list file, one per line with its label, as a data set.
#pragma once

#include <lockstep/data/pictures.h>
#include <lockstep/samples/picture_sample.h>

#include <memory>
#include <string>

namespace lockstep::samples {

struct ImageListOptions {
  std::string root;               ///< folder that the list's names are relative to
  std::string train;              ///< list of the training pictures
  std::string eval;               ///< list for evaluation; empty: none
  std::string separator = "tab";  ///< tab or comma: the first one in a line; space: the last one
  LabelOptions labels;
  std::string sampling = "each";  ///< each or balanced (balanced.h)
  PictureOptions pictures;
};
void describe(ConfigFields& fields, ImageListOptions& options);

/// A split. Fields: `pictures`, uint8 [H, W, C] of any size; `labels`, int64, or the text `labels`; the text `names`.
/// Lists are UTF-8, with LF or CR LF; empty lines are skipped. nullptr for the test split without a list.
///
/// Error(config) for a list that is missing or empty; Error(data) with file and line for a line without separator, name
/// or label, and an invalid label. `get` throws Error(data) naming the picture.
std::shared_ptr<const Dataset> load_image_list(const ImageListOptions& options, data::Split split);

}  // namespace lockstep::samples
