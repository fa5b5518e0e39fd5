// Hints in messages about a word that is not known here: the closest valid name ("did you mean ..."), and our word for
// one of another program. A reader is given those words.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// The entry of `valid` with the smallest edit distance to `wrong` (insert, delete, replace or swap of neighbours;
/// differences in letter case, '-' and '_' cost little); the first one in case of a tie; nullopt when all are too
/// different to be a typing mistake.
std::optional<std::string> nearest(std::string_view wrong, std::span<const std::string> valid);

/// "; did you mean 'lr'?", or an empty text: to be appended to a message. `more` is appended to both as a sentence or
/// clause of its own, e.g. "known are a, b": "; did you mean 'a'? Known are a, b", or "; known are a, b".
std::string did_you_mean(std::string_view wrong, std::span<const std::string> valid, std::string_view more = {});

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

}  // namespace lockstep
