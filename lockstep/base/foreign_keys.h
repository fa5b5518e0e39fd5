// The names of configuration keys in other frameworks, for "did you mean" messages.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// The key among `known` (whole paths, "optimizer.lr") that people of other frameworks call `key`, given alone or with
/// its section ("learning_rate", "data.path"). Letter case, '-' and '_' do not count.
std::optional<std::string> known_elsewhere_as(std::string_view key, std::span<const std::string> known);

}  // namespace lockstep
