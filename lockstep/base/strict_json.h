// JSON whose objects have each key once, in time proportional to its length. (nlohmann's own parser keeps the last of
// repeated keys silently, and with a callback looks through an object again behind each of its members.)
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

namespace lockstep {

/// The value, or what is wrong with the text: "has "a" twice", "is nested deeper than 3", "cannot be used: it is not
/// valid JSON (line 3, column 7)".
std::variant<nlohmann::json, std::string> parse_strict_json(std::string_view text, std::size_t deepest);

}  // namespace lockstep
