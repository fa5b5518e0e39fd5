// Names in a file of weights, and their conversion to the model's names. Plain text: needs no libtorch.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// One rule of model.weights_rename. Without `*`, `from` is a prefix of names, and `to` replaces it. With `*`, which
/// stands for any characters, dots included, `from` is a whole name; each `*` of `to` is the text of the same `*` in
/// `from`, and all except the last match as little as possible.
struct Rename {
  std::string from;
  std::string to;
};

/// The new name, or nullopt where the rule does not fit.
std::optional<std::string> renamed(std::string_view name, const Rename& rule);

/// The error of the rule, e.g. "has more * ..."; empty if there is none.
std::string mistake_in(const Rename& rule);

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

/// A module with a table of its tensors' names in other frameworks' files.
class KnowsOtherNames {
 public:
  KnowsOtherNames() = default;
  KnowsOtherNames(const KnowsOtherNames&) = delete;
  KnowsOtherNames& operator=(const KnowsOtherNames&) = delete;
  virtual ~KnowsOtherNames() = default;

  /// The same as WeightNames::theirs.
  virtual std::vector<Rename> other_names() const = 0;
};

/// The PyTorch name for a `name` of MindSpore's layers: "bn.gamma" is "bn.weight". nullopt: both are equal.
std::optional<std::string> from_mindspore(std::string_view name);

}  // namespace lockstep::train
