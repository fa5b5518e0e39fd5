// The folder of a run, given where a file of it is meant.
#pragma once

#include <filesystem>
#include <vector>

namespace lockstep::train {

/// Whether it is one: with checkpoints/ or model.safetensors in it.
bool is_run_folder(const std::filesystem::path& path);

/// Where the run of a folder, file of weights or checkpoint may have its files, nearest first: there, and in the two
/// folders above it (RUN/best/, RUN/checkpoints/step_00000010.sharded). Paths are absolute.
std::vector<std::filesystem::path> folders_of_run_around(const std::filesystem::path& weights);

/// The weights that the run has come to: model.safetensors, or the newest checkpoint where the run went on since then.
/// What is no folder of a run stays as it is. Error(io) where checkpoints cannot be listed.
std::filesystem::path weights_of_run(const std::filesystem::path& path);

/// Its newest checkpoint, or model.safetensors where it has none. What is no folder of a run stays as it is.
std::filesystem::path checkpoint_of_run(const std::filesystem::path& path);

}  // namespace lockstep::train
