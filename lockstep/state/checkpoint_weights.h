// The weights in a checkpoint of a run, for models that start from them.
#pragma once

#include <lockstep/state/named_tensors.h>

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::state {

/// Parameters and buffers of the model in a checkpoint: a folder of parts (step_00000123.sharded), the file that
/// `lockstep checkpoint merge` makes of it, or a folder with one checkpoint, such as the folder of best_checkpoints.
/// Adds the chosen checkpoint to `remarks`. `average`: parameters have the values of the average that the callback ema
/// keeps there; other tensors, such as buffers, are the model's. Error(data) if there is no checkpoint, if it is
/// damaged or lacks that average, or if there are several, which the message lists; Error(io) if it cannot be read.
NamedTensors load_checkpoint_weights(const std::filesystem::path& path, bool average,
                                     std::vector<std::string>& remarks);

}  // namespace lockstep::state
