// Pictures with labels in LMDB databases, in the layout of CRNN's data, as a data set.
#pragma once

#include <lockstep/data/pictures.h>
#include <lockstep/samples/picture_sample.h>

#include <memory>
#include <string>

namespace lockstep::samples {

struct ImageLmdbOptions {
  std::string train;  ///< folder with data.mdb, or with such folders below it
  std::string eval;   ///< the same for evaluation; empty: none
  LabelOptions labels{.label = "text", .classes = {}, .num_classes = 0};
  PictureOptions pictures;
};
void describe(ConfigFields& fields, ImageLmdbOptions& options);

/// A split: the databases of samples/lmdb_pictures.h. Fields: `pictures`, uint8 [H, W, C] of any size; `labels`, the
/// text or int64; the text `names`, file and key. nullptr for the test split without a folder.
///
/// Error(config) for a folder without a database; Error(data) naming file and key for an entry that is damaged,
/// missing, or not a number. `get` throws the same.
std::shared_ptr<const Dataset> load_image_lmdb(const ImageLmdbOptions& options, data::Split split);

}  // namespace lockstep::samples
