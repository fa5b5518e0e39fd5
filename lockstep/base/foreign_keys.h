// The words of other frameworks in configurations, for messages: what is written here instead.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// "; here it is called 'optimizer.lr'", or a sentence about what takes the place of a section; empty for a key that is
/// none of other frameworks. It is given alone or with its section ("learning_rate", "data.path"); `known` are the keys
/// here, with their sections. Letter case, '-' and '_' are ignored.
std::string here_instead_of(std::string_view key, std::span<const std::string> known);

/// The same for a value of a key that has these choices: "; here it is called 'cuda'".
std::string value_here(std::string_view value, std::span<const std::string> choices);

}  // namespace lockstep
