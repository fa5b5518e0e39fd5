// UTF-8: its characters, invalid bytes, and texts that look alike although their bytes differ.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace lockstep {

struct Utf8Character {
  char32_t code = 0;
  std::size_t bytes = 0;  ///< 0: the bytes at this place are not UTF-8
};

/// The character at the beginning of `text`, which is not empty. Overlong encodings, surrogates and numbers above
/// U+10FFFF are not UTF-8.
Utf8Character first_character(std::string_view text);

/// The place of the first byte that is not UTF-8.
std::optional<std::size_t> first_not_utf8(std::string_view text);

/// Whether two different texts have the same letters except for the encoding of accents: one may have composed letters
/// (U+00E9), the other a letter and a mark (e, U+0301), as macOS writes file names. Supports Latin letters, kana and
/// Hangul.
bool differ_by_accents(std::string_view one, std::string_view other);

}  // namespace lockstep
