// Labelled pictures in memory as data sets of samples, and the fast path from their bytes to batches.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/data/picture_plan.h>
#include <lockstep/data/pictures.h>
#include <lockstep/samples/dataset.h>

#include <memory>
#include <string>
#include <string_view>

namespace lockstep::samples {

/// `dataset`, whose pictures are in memory, after the steps of `plan`: one pass makes a batch from the stored bytes.
std::shared_ptr<const Dataset> planned_pictures(std::shared_ptr<const Dataset> dataset, data::PicturePlan plan);

/// A batch of one picture of that shape, with the fields of such a data set; reads no data.
Batch picture_example(const data::PictureShape& shape);

/// The files of a data set that data::dataset_names() lists.
struct PictureFolderOptions {
  std::string root;
};
void describe(ConfigFields& fields, PictureFolderOptions& options);

/// data::load_pictures() as a data set. Error(config) for data.root where its files are not in the folder.
std::shared_ptr<const Dataset> load_picture_folder(std::string_view name, const PictureFolderOptions& options,
                                                   data::Split split);

}  // namespace lockstep::samples
