// The state of a module as named tensors, and its weights to and from files, also those of other frameworks. The
// functions are collectives when global tensors are among the tensors. Not thread-safe beside other uses of the tensors
// or of the module.
#pragma once

#include <lockstep/state/checkpoint.h>

#include <filesystem>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::train {

// Programs use NamedTensors, save_sharded and the other names of state/ as names of train/.
using namespace state;

/// All parameters and buffers, sharing the module's memory.
NamedTensors module_state(const torch::nn::Module& module);

/// Error(data) naming the first tensor that is missing, unexpected, or of another shape or dtype than the module's.
/// Reads no values: they may be tensors of the meta device.
void require_module_state(const torch::nn::Module& module, const NamedTensors& state);

/// Copies a state into the module. Errors of require_module_state, which leave it unchanged.
void load_module_state(torch::nn::Module& module, const NamedTensors& state);

/// `params_sha256` of result.json: sha256_of(module_state(module)).
std::string params_sha256(const torch::nn::Module& module);

// Weights to and from files.

/// One rule of model.weights_rename. Without `*`, `from` is a prefix of names, and `to` replaces it. With `*`, which
/// stands for any characters, dots included, `from` is a whole name; each `*` of `to` is the text of the same `*` in
/// `from`, and all except the last match as little as possible.
struct Rename {
  std::string from;
  std::string to;
};

/// The differences between the names in a file of weights and the module's.
struct WeightNames {
  std::string key{};                  ///< the keys of a .pth that lead to the state dict; empty: searched for
  std::string prefix{};               ///< begins names in the file and none in the module: "module."
  std::vector<std::string> except{};  ///< names or patterns ("fc.*") of tensors that the module keeps unchanged
  std::vector<Rename> rename{};       ///< for names without the prefix: the first rule that fits, once
  bool strict = true;                 ///< false: tensors that do not fit are left out, not an error
  bool whole = false;                 ///< a tensor of the module that gets no value of the file is always an error
  std::vector<Rename> theirs{};       ///< of another framework's files: for names that the module has only when changed
  bool average = false;               ///< of a checkpoint: the average of the callback ema in place of parameters
};

/// A module with a table of its tensors' names in other frameworks' files: a second base class of models.
class KnowsOtherNames {
 public:
  KnowsOtherNames() = default;
  KnowsOtherNames(const KnowsOtherNames&) = delete;
  KnowsOtherNames& operator=(const KnowsOtherNames&) = delete;
  virtual ~KnowsOtherNames() = default;

  /// The same as WeightNames::theirs.
  virtual std::vector<Rename> other_names() const = 0;
};

/// Writes module_state: parameters and buffers, e.g. "layer1.0.conv1.weight", as safetensors.
/// Error(io).
void save_weights(const torch::nn::Module& module, const std::filesystem::path& path,
                  const SavedMetadata& metadata = {});

/// Copies each tensor of a file (safetensors, .pth of torch.save, .ckpt of MindSpore, or a checkpoint) into the
/// parameter or buffer of the same name; floating dtypes are converted. Names of MindSpore's layers (gamma, beta, ...)
/// are accepted, and those that the module defines (KnowsOtherNames). Counts of batches (num_batches_tracked) may be
/// missing. Returns lines for the log: what was taken from where, and with names.strict false what does not fit.
/// Error(data) names the tensors that are missing, unexpected, or of another shape or kind, and a remedy where it is
/// known; the module is then unchanged. With names.strict false that is an error only where nothing fits.
std::vector<std::string> load_weights(torch::nn::Module& module, const std::filesystem::path& path,
                                      const WeightNames& names = {});

}  // namespace lockstep::train
