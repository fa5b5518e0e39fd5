// The tensors of any file, or folder, of weights.
#pragma once

#include <lockstep/train/weights/safetensors.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace lockstep::train {

struct WeightsFile {
  TensorMap tensors;  ///< on the CPU, under the file's names
  /// What is beside them and not read, by name: "a number", "a tensor of dtype C64", "argparse.Namespace".
  std::map<std::string, std::string, std::less<>> others;
  std::vector<std::string> remarks;  ///< lines for the log: what was chosen in the file
};

/// Reads safetensors, .pth of torch.save, .ckpt of MindSpore, checkpoints of a run, and the index of several files or
/// their folder. `names.key` and `names.average` choose in it. Error(data) for what is none of these or damaged, and
/// says what it is; Error(io) for what cannot be read.
WeightsFile read_weights_file(const std::filesystem::path& path, const WeightNames& names);

}  // namespace lockstep::train
