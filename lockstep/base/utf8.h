// UTF-8, beside first_character() of base/text.h: invalid bytes, and texts that look alike although their bytes differ.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace lockstep {

/// The place of the first byte that is not UTF-8.
std::optional<std::size_t> first_not_utf8(std::string_view text);

/// Whether two different texts have the same letters except for the encoding of accents: one may have composed letters
/// (U+00E9), the other a letter and a mark (e, U+0301), as macOS writes file names. Supports Latin letters, kana and
/// Hangul.
bool differ_by_accents(std::string_view one, std::string_view other);

}  // namespace lockstep
