// Names in a file of weights and how they become the model's. Plain text: needs no libtorch.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// One rule of model.weights_rename. Without `*`, `from` is what names begin with, and `to` takes its place. With `*`,
/// which stands for any characters, dots included, `from` is a whole name; each `*` of `to` is what the same one of
/// `from` stood for, and all but the last stand for as little as possible.
struct Rename {
  std::string from;
  std::string to;
};

/// The new name, or nullopt where the rule does not fit.
std::optional<std::string> renamed(std::string_view name, const Rename& rule);

/// What is wrong with the rule, e.g. "has more * ...": empty where nothing is.
std::string mistake_in(const Rename& rule);

/// The differences between the names in a file of weights and the module's.
struct WeightNames {
  std::string key{};     ///< the keys of a .pth that lead to the state dict; empty: found where it is clear
  std::string prefix{};  ///< begins names in the file and none in the module: "module."
  std::vector<std::string> except{};  ///< names or patterns ("fc.*") of tensors that the module keeps unchanged
  std::vector<Rename> rename{};       ///< for names without the prefix: the first rule that fits, once
  bool strict = true;                 ///< false: tensors that do not fit are left out, not an error
  bool whole = false;                 ///< a tensor of the module that gets no value of the file is always an error
  std::vector<Rename> theirs{};       ///< of another framework's files: for names that the module has only when changed
  bool average = false;               ///< of a checkpoint: the average of the callback ema in place of parameters
};

/// A module that knows under which names other frameworks' files have its tensors.
class KnowsOtherNames {
 public:
  KnowsOtherNames() = default;
  KnowsOtherNames(const KnowsOtherNames&) = delete;
  KnowsOtherNames& operator=(const KnowsOtherNames&) = delete;
  virtual ~KnowsOtherNames() = default;

  /// As WeightNames::theirs.
  virtual std::vector<Rename> other_names() const = 0;
};

/// `name` as MindSpore's layers call it, in PyTorch's words: "bn.gamma" is "bn.weight". nullopt: both say the same.
std::optional<std::string> from_mindspore(std::string_view name);

}  // namespace lockstep::train
