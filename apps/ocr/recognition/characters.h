// Characters of labels: between UTF-8 and code points, and the classes of characters that a comparison of words
// ignores.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::ocr {

/// The characters of a text. Error(data) for bytes that are not UTF-8.
std::u32string characters_of(std::string_view utf8);

std::string to_utf8(std::u32string_view characters);

/// Small letters for capital ones of the Latin, Greek and Cyrillic alphabets; others are not changed.
char32_t lower_case(char32_t character);
std::u32string lower_case(std::u32string text);

/// Blanks of any kind: space, tab, no-break space, ideographic space.
bool is_blank(char32_t character);

/// Letters and digits of ASCII, and Chinese characters (U+4E00 to U+9FA5).
bool is_letter_or_digit(char32_t character);

}  // namespace lockstep::ocr
