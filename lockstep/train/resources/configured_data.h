// The data set that data.name chooses: its part, its options, and its lists of transforms.
#pragma once

#include <lockstep/data/pictures.h>
#include <lockstep/samples/transforms.h>
#include <lockstep/train/config.h>
#include <lockstep/train/parts.h>

#include <optional>
#include <string>

namespace lockstep::train {

/// Error(config) for an unknown data.name.
const DataPart& data_part(const DataConfig& config);

/// The options of the part. DataConfig::root is a short form of their key `root`, for configurations made in a program.
PartOptions data_options(const DataConfig& config, const DataPart& part);

/// The key `root` of options; nullptr where they have none. Valid as long as they are.
std::string* root_of(PartOptions& options);

/// data.train_transforms for training; for evaluation data.eval_transforms, or those of training without the random
/// ones. `stored`: as in read_transforms(). Reads no data. Error(config) with the place in the file.
samples::TransformList transforms_of(const DataConfig& config, data::Split split,
                                     const std::optional<data::PictureShape>& stored = {});

}  // namespace lockstep::train
