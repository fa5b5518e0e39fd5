// Photographs with the polygons of their words, as a data set.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/data/pictures.h>
#include <lockstep/samples/dataset.h>

#include <memory>
#include <string>

namespace lockstep::ocr {

struct TextBoxesOptions {
  std::string root;            ///< folder that the other paths are relative to
  std::string train;           ///< label file of the training pictures, or folder with ICDAR's label files
  std::string train_pictures;  ///< folder of the training pictures
  std::string eval;            ///< the same for evaluation; empty: none
  std::string eval_pictures;
  std::string labels = "auto";  ///< auto, list, icdar2015, mlt or icdar2013
  bool orientation = true;      ///< turn pictures by their EXIF orientation
  std::int64_t max_pixels = data::kMostPixels, max_scans = data::kMostScans;
  std::string on_error = "fail";  ///< fail or skip
};
void describe(ConfigFields& fields, TextBoxesOptions& options);

/// A split. Fields: `pictures`, uint8 [H, W, 3], RGB, the text `names`, and those of word_tensors.h: `polygons`,
/// `ignored`, the same once more as `truth` and `truth_ignored`, which transforms do not change, and `frame`. In a
/// batch the words of each picture are separate, as lists. nullptr for the test split without `eval`.
///
/// Where `root` has no label file of that name but its folder `detection` has one, that folder replaces `root`.
/// Error(config) for a missing file or folder, Error(data) with file and line for invalid labels. `get` throws
/// Error(data) naming the picture, and the line that names it.
std::shared_ptr<const samples::Dataset> load_text_boxes(const TextBoxesOptions& options, data::Split split);

}  // namespace lockstep::ocr
