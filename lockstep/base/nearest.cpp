// The name that a misspelt name most likely means, and the search for a word of another program in those that are
// given.
#include <lockstep/base/nearest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace lockstep {
namespace {

// Normalizes differences that do not change the meaning: letter case, and dashes for underscores.
std::string without_case(std::string_view text) {
  std::string folded(text);
  for (char& c : folded) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return folded;
}

// The restricted Damerau-Levenshtein distance (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

// Whether a distance is small enough for a typing mistake: at most a third of the letters.
bool is_slip(std::size_t distance, std::size_t size, std::size_t other_size) {
  const std::size_t allowed = std::max<std::size_t>(std::max(size, other_size) / 3, 1);
  return distance == 0 || (distance <= allowed && distance < std::min(size, other_size));
}

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

std::optional<std::string> nearest(std::string_view wrong, std::span<const std::string> valid) {
  constexpr std::size_t kLongestName = 200;
  if (wrong.empty() || wrong.size() > kLongestName) return std::nullopt;
  const std::string folded = without_case(wrong);
  const std::string* best = nullptr;
  std::size_t best_distance = 0;
  for (const std::string& candidate : valid) {
    const std::size_t distance = edit_distance(folded, without_case(candidate));
    if (!is_slip(distance, folded.size(), candidate.size())) continue;
    if (best == nullptr || distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::string did_you_mean(std::string_view wrong, std::span<const std::string> valid, std::string_view more) {
  const auto close = nearest(wrong, valid);
  if (more.empty()) return close ? fmt::format("; did you mean '{}'?", *close) : std::string();
  if (!close) return fmt::format("; {}", more);
  return fmt::format("; did you mean '{}'? {}{}", *close, static_cast<char>(std::toupper(more.front())),
                     more.substr(1));
}

bool is_sentence(std::string_view here) { return here.find(' ') != std::string_view::npos; }

std::string here_instead_of(std::string_view key, std::span<const std::string> known, const ForeignWords& words) {
  return answer_to(key, words.keys,
                   [&](auto ours) { return known.empty() || std::ranges::find(known, ours) != known.end(); });
}

std::string value_here(std::string_view value, std::span<const std::string> choices, const ForeignWords& words) {
  return answer_to(value, words.values, [&](auto ours) { return std::ranges::find(choices, ours) != choices.end(); });
}

}  // namespace lockstep
