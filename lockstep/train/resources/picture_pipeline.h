// The preparation of stored pictures by the configuration's transforms.
#pragma once

#include <lockstep/data/dataset.h>
#include <lockstep/data/loader.h>
#include <lockstep/train/config.h>

namespace lockstep::train {

/// The transforms from a stored picture of data.name to the model's input, for training (with augmentation) or
/// evaluation. Reads no picture. Error(config) with the position in the file.
data::Pipeline make_pipeline(const DataConfig& config, data::Split split);

}  // namespace lockstep::train
