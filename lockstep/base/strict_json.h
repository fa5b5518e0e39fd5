// JSON whose objects have each key once, read in time proportional to its length. (nlohmann's own parser silently keeps
// the last of repeated keys, and with a callback searches an object again after each of its members.)
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

namespace lockstep {

/// The value, or the mistake in the text: "has "a" twice", "is nested deeper than 3", "cannot be used: it is not valid
/// JSON (line 3, column 7)".
std::variant<nlohmann::json, std::string> parse_strict_json(std::string_view text, std::size_t deepest);

}  // namespace lockstep
