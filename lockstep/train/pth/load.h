// Tensors of a file of torch.save.
#pragma once

#include <lockstep/train/weights/safetensors.h>

#include <filesystem>
#include <map>
#include <string>

namespace lockstep::train {

struct PthTensors {
  TensorMap tensors;  ///< on the CPU; views that share storages as they did when they were saved
  std::string place;  ///< the keys that lead to the state dict in the file; empty: it is all there is
  std::map<std::string, std::string, std::less<>> others;  ///< what is beside them and not read, and what it is
};

/// The tensors of the state dict in the file, at `place` or where state_dict.h says, each storage read once, so that
/// they take no more memory than the file. Errors as PthArchive, Error(io) for a file that cannot be read.
PthTensors load_pth(const std::filesystem::path& path, const std::string& place = {});

}  // namespace lockstep::train
