// Tensors in safetensors files, which Python can read too. The layout is described in safetensors_header.h.
#pragma once

#include <lockstep/train/keys/weight_names.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace lockstep::train {

using TensorMap = std::map<std::string, at::Tensor, std::less<>>;
using TensorMetadata = std::map<std::string, std::string, std::less<>>;

/// Writes a new file or replaces an old one as a whole (see AtomicFile). Tensors may have any strides and device;
/// dtypes: float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8, bool. The same tensors and metadata
/// give the same bytes. Error(invalid_argument) naming the tensor for another dtype or a bad name, Error(io).
void save_safetensors(const std::filesystem::path& path, const TensorMap& tensors, const TensorMetadata& metadata = {});

/// All tensors, on the CPU, contiguous. Everything is checked before memory is taken: Error(data) names the file, the
/// tensor and the rule broken; Error(io) a missing or unreadable file.
TensorMap load_safetensors(const std::filesystem::path& path);

/// The metadata that the writer added; reads the header only. Errors as above.
TensorMetadata load_safetensors_metadata(const std::filesystem::path& path);

/// save_safetensors of module_state (named_tensors.h): parameters and buffers, e.g. "layer1.0.conv1.weight".
void save_weights(const torch::nn::Module& module, const std::filesystem::path& path,
                  const TensorMetadata& metadata = {});

/// Copies each tensor of the file (weights_file.h defines the set) into the parameter or buffer of the same name;
/// floating dtypes are converted. Names of MindSpore's layers (gamma, beta, ...) are accepted, and those that the
/// module defines (KnowsOtherNames). Counts of batches (num_batches_tracked) may be missing. Returns lines for the log:
/// what was taken from where, and with names.strict false what does not fit. Error(data) names the tensors that are
/// missing, unexpected, or of another shape or kind, and a remedy where it is known; the module is then unchanged. With
/// names.strict false that is an error only where nothing fits.
std::vector<std::string> load_weights(torch::nn::Module& module, const std::filesystem::path& path,
                                      const WeightNames& names = {});

}  // namespace lockstep::train
