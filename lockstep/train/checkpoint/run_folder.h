// The folder of a run, given in place of one of its files.
#pragma once

#include <filesystem>
#include <vector>

namespace lockstep::train {

/// Whether the path is the folder of a run: it has checkpoints/ or model.safetensors in it.
bool is_run_folder(const std::filesystem::path& path);

/// The possible run folders of a folder, file of weights or checkpoint, nearest first: the path itself, and the two
/// folders above it (RUN/best/, RUN/checkpoints/step_00000010.sharded). Paths are absolute.
std::vector<std::filesystem::path> folders_of_run_around(const std::filesystem::path& weights);

/// The file of that name in the nearest of these folders; empty if there is none, or if `weights` is empty.
std::filesystem::path find_file_of_run(const std::filesystem::path& weights, const char* name);

/// The newest weights of the run: model.safetensors, or the newest checkpoint if the run continued since then. Other
/// paths are returned unchanged. Error(io) if checkpoints cannot be listed.
std::filesystem::path weights_of_run(const std::filesystem::path& path);

/// The newest checkpoint of the run, or model.safetensors if it has none. Other paths are returned unchanged.
std::filesystem::path checkpoint_of_run(const std::filesystem::path& path);

}  // namespace lockstep::train
