// The words of other frameworks in configurations, for messages: what is written here instead.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// A word of another framework that is not accepted here.
struct ForeignWord {
  std::string_view there;  ///< as it is written there; "eval.*" is a section
  std::string_view from;   ///< the framework
  std::string_view here;   ///< a key of ours, or a sentence
};

/// The words of docs/coming_from.md that are not accepted, from which its table is made.
std::span<const ForeignWord> foreign_words();

/// Whether word.here is a key, and not a sentence.
bool is_key(const ForeignWord& word);

/// "; here it is called 'optimizer.lr'", or a sentence about what takes the place of a section; empty for a key that is
/// none of other frameworks. It is given alone or with its section ("learning_rate", "data.path"); `known` are the keys
/// here, with their sections; without any, all are. Letter case, '-' and '_' are ignored.
std::string here_instead_of(std::string_view key, std::span<const std::string> known);

/// The same for a value of a key that has these choices: "; here it is called 'cuda'".
std::string value_here(std::string_view value, std::span<const std::string> choices);

}  // namespace lockstep
