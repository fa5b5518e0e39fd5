// A model that Python exported with torch.jit.script or torch.jit.trace, as a classifier whose weights can be trained.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/models/network.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::models {

struct TorchScriptOptions {
  std::string file;
};

void describe(ConfigFields& fields, TorchScriptOptions& options);

/// Loads the file onto the CPU. Parameters and buffers have Python's names and the file's values; `train()` sets the
/// mode of the script, too. Its forward takes the pictures and returns logits. The graph runs without optimization, so
/// that all runs round in the same way. Error(config) for a file that is missing, is not TorchScript, or has no
/// parameters (frozen). TorchScript is code: load only files that you trust.
std::shared_ptr<Network> torchscript(const std::filesystem::path& file);

/// A remark for users: layers of a traced script stay in the mode in which they were traced. Empty where there are no
/// such layers.
std::vector<std::string> remarks_on_script(torch::nn::Module& network);

/// Writes the script of `file` with these weights, which have its names, to `target`, for Python's torch.jit.load().
/// Error(data) for tensors of other names; missing tensors keep the file's values.
void save_torchscript(const std::filesystem::path& file, const std::map<std::string, at::Tensor, std::less<>>& weights,
                      const std::filesystem::path& target);

}  // namespace lockstep::models
