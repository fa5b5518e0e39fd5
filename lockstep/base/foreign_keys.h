// The words of other frameworks in configurations, with their replacements, for messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// A word of another framework that is not accepted here.
struct ForeignWord {
  std::string_view there;  ///< the other framework's word; "eval.*" is a section
  std::string_view from;   ///< the framework
  std::string_view here;   ///< a key of ours, or a sentence
};

/// The words of docs/coming_from.md that are not accepted; its table is generated from them.
std::span<const ForeignWord> foreign_words();

/// Whether word.here is a key, and not a sentence.
bool is_key(const ForeignWord& word);

/// "; here it is called 'optimizer.lr'", or a sentence about the replacement of a section; empty for a key that belongs
/// to no other framework. The key is given alone or with its section ("learning_rate", "data.path"). `known` are
/// Lockstep's keys, with their sections; without any, all keys count as known. Letter case, '-' and '_' are ignored.
std::string here_instead_of(std::string_view key, std::span<const std::string> known);

/// The same for a value of a key that has these choices: "; here it is called 'cuda'".
std::string value_here(std::string_view value, std::span<const std::string> choices);

}  // namespace lockstep
