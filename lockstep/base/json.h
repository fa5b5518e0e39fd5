// Strict reading of untrusted JSON, and messages for users about mistakes in it.
#pragma once

#include <nlohmann/json.hpp>

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace lockstep {

/// The integer in `value`. nlohmann::json's get() also accepts a fraction, a boolean, or a number that does not fit,
/// which is undefined behaviour or gives another number than the text has. Throws nlohmann::json::type_error, which
/// readers handle with the other errors of JSON.
template <std::integral Int>
Int integer_of(const nlohmann::json& value) {
  const bool fits = value.is_number_unsigned()  ? std::in_range<Int>(value.get<std::uint64_t>())
                    : value.is_number_integer() ? std::in_range<Int>(value.get<std::int64_t>())
                                                : false;
  if (!fits) throw nlohmann::json::type_error::create(302, "type must be an integer that fits", &value);
  return value.get<Int>();
}

/// "it has no "mesh"", "it is not valid JSON (line 3, column 7)", "a value is a list where an object should be".
std::string json_mistake(const nlohmann::json::exception& error);

/// The value, or the mistake in the text: "has "a" twice", "is nested deeper than 3", "cannot be used: it is not valid
/// JSON (line 3, column 7)".
std::variant<nlohmann::json, std::string> parse_strict_json(std::string_view text, std::size_t deepest);

}  // namespace lockstep
