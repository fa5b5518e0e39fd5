// Strict reading of scalars written by users: the whole text must be the value, otherwise there is no value. trimmed()
// removes blanks around it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep {

/// Decimal digits with an optional leading '-'. No blanks, no '+', nothing after the digits, no overflow.
std::optional<std::int64_t> parse_integer(std::string_view text);

/// A finite decimal number such as "-1", "0.5" or "1e-3". No blanks, no '+' in front, no "inf", no "nan". A number too
/// small or too large for a double gives nullopt.
std::optional<double> parse_number(std::string_view text);

/// true, yes, on, 1 and false, no, off, 0, in lower case, Capitalised or UPPER case.
std::optional<bool> parse_bool(std::string_view text);

/// A number of bytes: a non-negative integer with an optional K, M, G or T (powers of 1024), e.g. "64K", "512".
std::optional<std::int64_t> parse_bytes(std::string_view text);

/// The text from its first to its last character that is not in `blanks`.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t");

}  // namespace lockstep
