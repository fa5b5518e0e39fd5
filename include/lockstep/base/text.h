// Texts from outside: strict reading of scalars, characters of UTF-8, and the form in which messages quote them. All
// functions are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

// Scalars that users write: the whole text must be the value, otherwise there is no value.

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

/// Text from outside, as an error quotes it: on one line, and harmless for a terminal and a log. Characters that are
/// not printable are escaped (line breaks and tabs as \n, \r and \t; other control characters and bytes that are not
/// UTF-8 as \x1b; marks that change the direction of text, and byte order marks, as \u202e). If `text` has more than
/// `most` bytes, returns its beginning and its length: "aaaa... (10485760 bytes)". UTF-8 characters are not split.
std::string cut_text(std::string_view text, std::size_t most = 80);

struct Utf8Character {
  char32_t code = 0;
  std::size_t bytes = 0;  ///< 0: the bytes at this place are not UTF-8
};

/// The character at the beginning of `text`, which is not empty. Overlong encodings, surrogates and numbers above
/// U+10FFFF are not UTF-8.
Utf8Character first_character(std::string_view text);

}  // namespace lockstep
