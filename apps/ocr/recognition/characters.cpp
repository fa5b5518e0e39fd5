// Texts as characters and back in UTF-8, and case and class tables of characters that depend on no locale.
#include <apps/ocr/recognition/characters.h>

#include <lockstep/base/error.h>
#include <lockstep/base/text.h>

#include <algorithm>
#include <cstddef>

namespace lockstep::ocr {
std::u32string characters_of(std::string_view utf8) {
  std::u32string characters;
  for (std::size_t at = 0; at < utf8.size();) {
    const auto [character, bytes] = first_character(utf8.substr(at));
    if (bytes == 0) {
      fail(ErrorKind::data, "data", "the text '{}' is no UTF-8: byte {} (0x{:02x}) is wrong; convert the file to UTF-8",
           cut_text(utf8), at + 1, static_cast<unsigned char>(utf8[at]));
    }
    characters += character;
    at += bytes;
  }
  return characters;
}

std::string to_utf8(std::u32string_view characters) {
  std::string text;
  const auto add = [&](char32_t bits) { text += static_cast<char>(static_cast<unsigned char>(bits)); };
  for (const auto c : characters) {
    if (c < 0x80) {
      add(c);
    } else if (c < 0x800) {
      add(0xC0 | c >> 6);
      add(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
      add(0xE0 | c >> 12);
      add(0x80 | (c >> 6 & 0x3F));
      add(0x80 | (c & 0x3F));
    } else {
      add(0xF0 | c >> 18);
      add(0x80 | (c >> 12 & 0x3F));
      add(0x80 | (c >> 6 & 0x3F));
      add(0x80 | (c & 0x3F));
    }
  }
  return text;
}

char32_t lower_case(char32_t c) {
  const auto within = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  if (within(U'A', U'Z')) return c + 0x20;
  if (c < 0xC0) return c;
  if (within(0xC0, 0xDE) && c != 0xD7) return c + 0x20;
  if (c == 0x178) return 0xFF;
  // Pairs of a capital and its small letter: the capital is even in these ranges, odd in the next ones.
  if ((within(0x100, 0x137) && c != 0x130) || within(0x14A, 0x177) || within(0x460, 0x481) || within(0x48A, 0x4BF) ||
      within(0x4D0, 0x52F) || within(0x1E00, 0x1E95) || within(0x1EA0, 0x1EFF)) {
    return c | 1;
  }
  if (within(0x139, 0x148) || within(0x179, 0x17E)) return c + (c & 1);
  if (within(0x391, 0x3AB) && c != 0x3A2) return c + 0x20;
  if (within(0x400, 0x40F)) return c + 0x50;
  if (within(0x410, 0x42F)) return c + 0x20;
  return c;
}

std::u32string lower_case(std::u32string text) {
  std::ranges::transform(text, text.begin(), [](char32_t c) { return lower_case(c); });
  return text;
}

bool is_blank(char32_t c) { return c == U' ' || (c >= 9 && c <= 13) || c == 0xA0 || c == 0x3000; }

bool is_letter_or_digit(char32_t c) {
  return (c >= U'0' && c <= U'9') || (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') ||
         (c >= 0x4E00 && c <= 0x9FA5);
}

}  // namespace lockstep::ocr
