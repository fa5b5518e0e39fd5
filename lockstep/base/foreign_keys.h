// The names of configuration keys in other frameworks, for "did you mean" messages.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// The key among `known` (full paths, "optimizer.lr") that other frameworks call `key`, which is given alone or with
/// its section ("learning_rate", "data.path"). Letter case, '-' and '_' are ignored.
std::optional<std::string> known_elsewhere_as(std::string_view key, std::span<const std::string> known);

}  // namespace lockstep
