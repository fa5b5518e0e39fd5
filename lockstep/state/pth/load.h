// Tensors of a file of torch.save.
#pragma once

#include <lockstep/state/safetensors.h>

#include <filesystem>
#include <map>
#include <string>

namespace lockstep::state {

struct PthTensors {
  NamedTensors tensors;  ///< on the CPU; views that share storages as they did when they were saved
  std::string place;     ///< the keys that lead to the state dict in the file; empty: the file is the state dict
  std::map<std::string, std::string, std::less<>> others;  ///< descriptions of other entries, not read
};

/// The tensors of the state dict in the file, at `place` or by the rules of state_dict.h. Each storage is read once, so
/// that the tensors take no more memory than the file. Errors as PthArchive, Error(io) for a file that cannot be read.
PthTensors load_pth(const std::filesystem::path& path, const std::string& place = {});

}  // namespace lockstep::state
