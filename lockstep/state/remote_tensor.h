// Tensors of a model that no rank has in its memory, for hashes and files of the whole model.
#pragma once

#include <lockstep/state/safetensors.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace at {
class Tensor;
}

namespace lockstep::state {

/// float32 [rows, dim], read in blocks.
struct RemoteTensor {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  std::function<at::Tensor(std::int64_t first, std::int64_t count)> read{};
};

/// sha256_of (named_tensors.h) of all of them together. Memory: one block.
std::string sha256_of(const NamedTensors& tensors, const std::vector<RemoteTensor>& distant);

/// The file that save_safetensors would write of all of them together. Memory: one block.
void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const std::vector<RemoteTensor>& distant, const SavedMetadata& metadata);

}  // namespace lockstep::state
