// The tensors of any file, or folder, of weights.
#pragma once

#include <lockstep/state/checkpoint.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace lockstep::state {

struct WeightsFile {
  NamedTensors tensors;  ///< on the CPU, under the file's names
  /// Descriptions of other entries, which are not read, by name: "a number", "a tensor of dtype C64",
  /// "argparse.Namespace".
  std::map<std::string, std::string, std::less<>> others;
  std::vector<std::string> remarks;  ///< lines for the log about choices in the file
};

/// Reads safetensors, .pth of torch.save, .ckpt of MindSpore, checkpoints of a run, and the index of several files or
/// their folder. `key` leads to the state dict in a .pth (empty: it is searched for); `average`: of a checkpoint, the
/// average of the callback ema in place of parameters. Error(data) for another or damaged file, with its kind in the
/// message; Error(io) for a file that cannot be read.
WeightsFile read_weights_file(const std::filesystem::path& path, const std::string& key = {}, bool average = false);

}  // namespace lockstep::state
