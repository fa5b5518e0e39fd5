// Tensors of a file of torch.save.
#pragma once

#include <lockstep/train/weights/safetensors.h>

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::train {

struct PthTensors {
  TensorMap tensors;                ///< on the CPU; views that share storages as they did when they were saved
  std::string place;                ///< the keys that lead to the state dict in the file; empty: it is all there is
  std::vector<std::string> others;  ///< what is beside the tensors and is none
};

/// The tensors of the state dict in the file (state_dict.h says which), each storage read once, so that they take no
/// more memory than the file. Errors as PthArchive, Error(io) for a file that cannot be read.
PthTensors load_pth(const std::filesystem::path& path);

}  // namespace lockstep::train
