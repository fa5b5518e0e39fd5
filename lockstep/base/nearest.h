// Suggestions for mistyped names ("did you mean ..."): the closest valid name.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// The entry of `valid` with the smallest edit distance to `wrong` (insert, delete, replace or swap of neighbours;
/// letter case, '-' and '_' hardly count), the first one of equals; nullopt when all are too far to be a slip of the
/// fingers.
std::optional<std::string> nearest(std::string_view wrong, std::span<const std::string> valid);

/// "; did you mean 'lr'?" or nothing: ready to append to a message.
std::string did_you_mean(std::string_view wrong, std::span<const std::string> valid);

}  // namespace lockstep
