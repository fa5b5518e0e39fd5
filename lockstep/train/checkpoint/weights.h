// The weights of a module to and from files.
#pragma once

#include <lockstep/train/keys/weight_names.h>
#include <lockstep/train/named_tensors.h>

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::train {

/// save_safetensors of module_state (named_tensors.h): parameters and buffers, e.g. "layer1.0.conv1.weight".
void save_weights(const torch::nn::Module& module, const std::filesystem::path& path,
                  const SavedMetadata& metadata = {});

/// Copies each tensor of the file (weights_file.h defines the set) into the parameter or buffer of the same name;
/// floating dtypes are converted. Names of MindSpore's layers (gamma, beta, ...) are accepted, and those that the
/// module defines (KnowsOtherNames). Counts of batches (num_batches_tracked) may be missing. Returns lines for the log:
/// what was taken from where, and with names.strict false what does not fit. Error(data) names the tensors that are
/// missing, unexpected, or of another shape or kind, and a remedy where it is known; the module is then unchanged. With
/// names.strict false that is an error only where nothing fits.
std::vector<std::string> load_weights(torch::nn::Module& module, const std::filesystem::path& path,
                                      const WeightNames& names = {});

}  // namespace lockstep::train
