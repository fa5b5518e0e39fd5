// The words of other frameworks: those that a run's configuration accepts, and those that messages translate.
#pragma once

#include <lockstep/base/nearest.h>

#include <array>
#include <span>
#include <string_view>

namespace lockstep::train {

/// A key of another framework that is read as ours (configuration/read_config.h).
struct AcceptedKey {
  std::string_view there;               ///< "section.key", or a key at the top
  std::string_view section, key;        ///< ours
  std::array<ForeignWord, 2> values{};  ///< without those that mean the same
};

std::span<const AcceptedKey> accepted_keys();

/// A row of the table in docs/coming_from.md.
struct DocumentedWord {
  std::string_view there;  ///< the other framework's word; "eval.*" is a section
  std::string_view from;   ///< the framework
  std::string_view here;   ///< a key of ours, or a sentence
};

/// The words of docs/coming_from.md that are not accepted; its table is generated from them.
std::span<const DocumentedWord> documented_words();

/// All words for readers of a run's configuration: the documented ones, and more.
ForeignWords refused_words();

}  // namespace lockstep::train
