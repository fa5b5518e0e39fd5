// The weights in a checkpoint of a run, for models that start from them.
#pragma once

#include <lockstep/train/checkpoint/state_source.h>
#include <lockstep/train/named_tensors.h>

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::train {

/// Parameters and buffers of the model in a checkpoint: a folder of parts (step_00000123.sharded), the file that
/// `lockstep checkpoint merge` makes of it, or a folder with one checkpoint, such as the folder of best_checkpoints.
/// Adds to `remarks` which it is. `average`: parameters are those of the average that the callback ema keeps there;
/// what it does not average, such as buffers, is the model's. Error(data) where there is no checkpoint, a damaged one
/// or one without that average, or where there are several, which it lists; Error(io) where it cannot be read.
NamedTensors load_checkpoint_weights(const std::filesystem::path& path, bool average,
                                     std::vector<std::string>& remarks);

/// Parameters and buffers of the model in such a state.
NamedTensors model_weights(StateSource& source);

}  // namespace lockstep::train
