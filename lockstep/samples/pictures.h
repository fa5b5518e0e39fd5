// Labelled pictures as a data set of samples: the fast path, in which one pass makes a batch from stored bytes.
#pragma once

#include <lockstep/data/dataset.h>
#include <lockstep/data/loader.h>
#include <lockstep/samples/dataset.h>

#include <memory>

namespace lockstep::samples {

/// Fields: `pictures`, float32 [N, C, H, W], the output of `pipeline`; `labels`, int64 [N], each from 0 to
/// num_classes() - 1.
inline constexpr const char* kPictures = "pictures";
inline constexpr const char* kLabels = "labels";

std::shared_ptr<const Dataset> picture_dataset(std::shared_ptr<const data::Dataset> pictures, data::Pipeline pipeline);

/// A batch of one picture of that shape, with the fields of such a data set; reads no data.
Batch picture_example(const data::PictureShape& shape);

}  // namespace lockstep::samples
