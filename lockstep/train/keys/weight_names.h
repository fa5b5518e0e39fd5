// The conversion of names in a file of weights (weights.h) to the model's names. Plain text: needs no libtorch.
#pragma once

#include <lockstep/train/weights.h>

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::train {

/// The new name, or nullopt where the rule does not fit.
std::optional<std::string> renamed(std::string_view name, const Rename& rule);

/// The error of the rule, e.g. "has more * ..."; empty if there is none.
std::string mistake_in(const Rename& rule);

/// The PyTorch name for a `name` of MindSpore's layers: "bn.gamma" is "bn.weight". nullopt: both are equal.
std::optional<std::string> from_mindspore(std::string_view name);

}  // namespace lockstep::train
