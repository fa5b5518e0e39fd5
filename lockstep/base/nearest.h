// Suggestions for mistyped names ("did you mean ..."): the closest valid name.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// The entry of `valid` with the smallest edit distance to `wrong` (insert, delete, replace or swap of neighbours;
/// differences in letter case, '-' and '_' cost little); the first one in case of a tie; nullopt when all are too
/// different to be a typing mistake.
std::optional<std::string> nearest(std::string_view wrong, std::span<const std::string> valid);

/// "; did you mean 'lr'?", or an empty text: to be appended to a message. `more` is appended to both as a sentence or
/// clause of its own, e.g. "known are a, b": "; did you mean 'a'? Known are a, b", or "; known are a, b".
std::string did_you_mean(std::string_view wrong, std::span<const std::string> valid, std::string_view more = {});

}  // namespace lockstep
