// The search for a word of another program in the words that a reader was given.
#include <lockstep/base/foreign_words.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {
namespace {

std::string folded(std::string_view word) {
  std::string result;
  for (const char c : word) {
    if (c == '_' || c == '-') continue;
    result += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return result;
}

template <typename IsOurs>
std::string answer_to(std::string_view theirs, std::span<const ForeignWord> words, IsOurs is_ours) {
  const std::string wanted = folded(theirs);
  for (const ForeignWord& word : words) {
    if (folded(word.there.substr(0, word.there.find(".*"))) != wanted) continue;
    if (is_sentence(word.here)) return fmt::format("; {}", word.here);
    if (is_ours(word.here)) return fmt::format("; here it is called '{}'", word.here);
  }
  return "";
}

}  // namespace

bool is_sentence(std::string_view here) { return here.find(' ') != std::string_view::npos; }

std::string here_instead_of(std::string_view key, std::span<const std::string> known, const ForeignWords& words) {
  return answer_to(key, words.keys,
                   [&](auto ours) { return known.empty() || std::ranges::find(known, ours) != known.end(); });
}

std::string value_here(std::string_view value, std::span<const std::string> choices, const ForeignWords& words) {
  return answer_to(value, words.values, [&](auto ours) { return std::ranges::find(choices, ours) != choices.end(); });
}

}  // namespace lockstep
