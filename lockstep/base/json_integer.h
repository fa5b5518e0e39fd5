// Strict reading of integers from untrusted JSON.
#pragma once

#include <concepts>
#include <nlohmann/json.hpp>
#include <utility>

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

}  // namespace lockstep
