// A reader of dictionary files (UTF-8, one character per line), and the encoding of words as character numbers.
#include <apps/ocr/recognition/dictionary.h>

#include <apps/ocr/recognition/characters.h>
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/data/files/items.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::ocr {
namespace {

constexpr std::u32string_view kDigitsAndLetters = U"0123456789abcdefghijklmnopqrstuvwxyz";

char32_t only_character(std::string_view line, const std::string& file, int number) {
  std::u32string characters;
  try {
    characters = characters_of(line);
  } catch (const Error& error) {
    throw Error(error.kind(), error.where(), error.message(), {file, number});
  }
  if (characters.size() == 1) return characters.front();
  throw Error(ErrorKind::data, "dictionary",
              fmt::format("a line of a dictionary is one character, and this one has {}: '{}'", characters.size(),
                          cut_text(line)),
              {file, number});
}

}  // namespace

void describe_dictionary(ConfigFields& fields, DictionaryOptions& options) {
  fields.field("dictionary", options.dictionary, a_path(),
               "file of the characters that can be read, UTF-8, one a line; empty: 0-9 and a-z");
  fields.field("use_space_char", options.use_space_char, anything(), "a blank as one more character, the last");
  fields.field("lower", options.lower, or_default(),
               "read capital letters as small ones; null: if the dictionary has no capital letter");
}

Dictionary::Dictionary(const DictionaryOptions& options, std::string_view section) {
  const auto key = fmt::format("{}.dictionary", section);
  const auto& file = options.dictionary;
  if (file.empty()) {
    for (const auto character : kDigitsAndLetters) add(character, file, 0);
  } else {
    data::for_each_line(
        file, key, [&](std::string_view line, int number) { add(only_character(line, file, number), file, number); });
    if (characters_.empty()) fail(ErrorKind::config, key, "the dictionary {} has no characters", file);
  }
  if (options.use_space_char) {
    if (contains(U' ')) {
      fail(ErrorKind::config, fmt::format("{}.use_space_char", section),
           "is true, and the dictionary {} has a blank of its own; remove one of the two", file);
    }
    add(U' ', file, 0);
  }
  const auto capital = std::ranges::find_if(characters_, [](char32_t c) { return lower_case(c) != c; });
  if (capital != characters_.end() && options.lower.value_or(false)) {
    fail(ErrorKind::config, fmt::format("{}.lower", section),
         "is true, so no word has the capital letter '{}', which the dictionary {} has; set lower to false, or remove "
         "the capital letters",
         to_utf8(std::u32string_view(&*capital, 1)), file);
  }
  lower_ = options.lower.value_or(capital == characters_.end());
}

void Dictionary::add(char32_t character, const std::string& file, int line) {
  if (!numbers_.emplace(character, size()).second) {
    throw Error(ErrorKind::data, "dictionary",
                fmt::format("the character '{}' is there twice; remove one of the two lines",
                            to_utf8(std::u32string_view(&character, 1))),
                {file, line});
  }
  characters_ += character;
}

std::vector<std::int64_t> Dictionary::encode(std::u32string_view word) const {
  std::vector<std::int64_t> numbers;
  for (const auto character : word) {
    const auto found = numbers_.find(lower_ ? lower_case(character) : character);
    if (found != numbers_.end()) numbers.push_back(found->second);
  }
  return numbers;
}

std::optional<char32_t> Dictionary::first_outside(std::u32string_view word) const {
  for (const auto character : word) {
    if (!contains(lower_ ? lower_case(character) : character)) return character;
  }
  return std::nullopt;
}

}  // namespace lockstep::ocr
