// Names of parameters: patterns of model.freeze and optimizer.groups, and the conversion of names in a file of weights
// (named_tensors.h) to the model's names. Pure functions: thread-safe.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/train/named_tensors.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// Whether `name` matches one of the patterns, whose rules are those of parallel.shard (global/global_tensor.h).
bool fits_any(std::string_view name, const std::vector<std::string>& patterns);

/// Error(config) naming the first pattern that matches none of `names`, with the nearest name, or else the first names.
/// `key` is the key that holds the patterns, at `position`.
void require_matches(const std::vector<std::string>& patterns, const std::vector<std::string>& names,
                     std::string_view key, const FilePosition& position = {});

/// The new name, or nullopt where the rule does not fit.
std::optional<std::string> renamed(std::string_view name, const Rename& rule);

/// The error of the rule, e.g. "has more * ..."; empty if there is none.
std::string mistake_in(const Rename& rule);

/// The PyTorch name for a `name` of MindSpore's layers: "bn.gamma" is "bn.weight". nullopt: both are equal.
std::optional<std::string> from_mindspore(std::string_view name);

}  // namespace lockstep::train
