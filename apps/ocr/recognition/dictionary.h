// The dictionary of a recognizer: the characters that it can read, and their numbers.
#pragma once

#include <lockstep/base/config.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep::ocr {

/// The keys that data and task share; both must have the same values.
struct DictionaryOptions {
  std::string dictionary{};     ///< file; empty: 0-9 and a-z
  bool use_space_char = false;  ///< a blank as a last character
  std::optional<bool> lower{};  ///< capital letters become small ones; none: by the dictionary
};
void describe_dictionary(ConfigFields& fields, DictionaryOptions& options);

/// A plain value.
class Dictionary {
 public:
  /// Reads the file, UTF-8 with a character in each line; empty lines are skipped. Errors name `section`, such as
  /// "data", and file and line: Error(config) for a file that is missing or empty, and for `lower` with a dictionary
  /// that has capital letters; Error(data) for a line of several characters, and for a character twice.
  Dictionary(const DictionaryOptions& options, std::string_view section);

  std::int64_t size() const { return static_cast<std::int64_t>(characters_.size()); }
  char32_t character(std::int64_t number) const { return characters_.at(static_cast<std::size_t>(number)); }
  bool contains(char32_t character) const { return numbers_.contains(character); }

  /// A word's numbers, from 0; characters that are not in the dictionary are left out.
  std::vector<std::int64_t> encode(std::u32string_view word) const;

  /// The first character of a word that is not in the dictionary.
  std::optional<char32_t> first_outside(std::u32string_view word) const;

 private:
  void add(char32_t character, const std::string& file, int line);

  std::u32string characters_;
  std::unordered_map<char32_t, std::int64_t> numbers_;
  bool lower_ = true;
};

}  // namespace lockstep::ocr
