// Words of other programs in a configuration, and what messages say instead: the rules. A reader is given the words.
#pragma once

#include <lockstep/base/config.h>

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// A word of another program that is not accepted here.
struct ForeignWord {
  std::string_view there;  ///< the other program's word: "learning_rate", "data.path"; "eval.*" is a section
  std::string_view here;   ///< a key or a value of ours, or a sentence
};

/// The words that a reader translates in its messages. Of several rows for one word, the first that fits counts.
struct ForeignWords {
  std::span<const ForeignWord> keys{};
  std::span<const ForeignWord> values{};
};

/// Whether a word's `here` is a sentence.
bool is_sentence(std::string_view here);

/// "; here it is called 'optimizer.lr'", or a sentence about the replacement of a section; empty for a key that is not
/// among the words. The key is given alone or with its section ("learning_rate", "data.path"). `known` are our keys,
/// with their sections; without any, all keys count as known. Letter case, '-' and '_' are ignored.
std::string here_instead_of(std::string_view key, std::span<const std::string> known, const ForeignWords& words);

/// The same for a value of a key that has these choices: "; here it is called 'cuda'".
std::string value_here(std::string_view value, std::span<const std::string> choices, const ForeignWords& words);

/// read_fields() of config.h, whose messages about unknown keys and values translate these words.
void read_fields(const ConfigNode& node, std::string_view path, const ForeignWords& words, const Describe& describe);

}  // namespace lockstep
