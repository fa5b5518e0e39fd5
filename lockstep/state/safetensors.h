// Tensors in safetensors files, which Python can read too. The layout is described in safetensors_header.h.
#pragma once

#include <lockstep/state/named_tensors.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::state {

/// Writes a new file or replaces an old one as a whole (see AtomicFile). Tensors may have any strides and device;
/// dtypes: float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8, bool. The same tensors and metadata
/// give the same bytes. Error(invalid_argument) naming the tensor for another dtype or a bad name, Error(io).
void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const SavedMetadata& metadata = {});

/// All tensors, on the CPU, contiguous. Everything is checked before memory is taken: Error(data) names the file, the
/// tensor and the rule broken; Error(io) a missing or unreadable file.
NamedTensors load_safetensors(const std::filesystem::path& path);

/// The metadata that the writer added; reads the header only. Errors as above.
SavedMetadata load_safetensors_metadata(const std::filesystem::path& path);

/// A tensor that no rank has in its memory: float32 [rows, dim], read in blocks.
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
