// The words of other frameworks that a run's configuration does not accept, with their replacements, for messages
// (foreign_names.h has those that it accepts).
#pragma once

#include <lockstep/base/foreign_words.h>

#include <span>
#include <string_view>

namespace lockstep::train {

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
