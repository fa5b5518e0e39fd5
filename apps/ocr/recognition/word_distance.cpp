// Levenshtein distance with one row, filters of characters, and word scores as sums by the longer word's length.
#include <apps/ocr/recognition/word_distance.h>

#include <apps/ocr/recognition/characters.h>
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>

#include <torch/torch.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace lockstep::ocr {
namespace {

constexpr std::string_view kExact = "exact_words";
constexpr std::string_view kDistance = "distance_of_length.";

std::u32string filtered(std::string_view text, const WordFilter& filter) {
  auto word = characters_of(text);
  if (filter.ignore_space) std::erase_if(word, is_blank);
  if (filter.ignore_case) word = lower_case(std::move(word));
  if (filter.ignore_symbols) std::erase_if(word, [](char32_t c) { return !is_letter_or_digit(c); });
  return word;
}

}  // namespace

void describe_filter(ConfigFields& fields, WordFilter& filter) {
  fields.field("ignore_case", filter.ignore_case, anything(), "metrics: capital letters equal small ones");
  fields.field("ignore_space", filter.ignore_space, anything(), "metrics: without blanks");
  fields.field("ignore_outside", filter.ignore_outside, anything(),
               "metrics: without the characters of a label that are not in the dictionary");
  fields.field("ignore_symbols", filter.ignore_symbols, anything(),
               "metrics: only digits, letters of ASCII and Chinese characters");
}

std::int64_t edit_distance(std::u32string_view a, std::u32string_view b) {
  std::vector<std::int64_t> row(b.size() + 1);  // distances of a's beginning to each beginning of b
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    auto diagonal = std::exchange(row[0], static_cast<std::int64_t>(i) + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const auto replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

void WordScores::add(std::string_view read, std::string_view label, const WordFilter& filter,
                     const Dictionary& dictionary) {
  const auto said = filtered(read, filter);
  auto meant = filtered(label, filter);
  if (filter.ignore_outside) std::erase_if(meant, [&](char32_t c) { return !dictionary.contains(c); });
  ++words_;
  if (said == meant) ++exact_;
  const auto longer = static_cast<std::int64_t>(std::max(said.size(), meant.size()));
  if (longer > 0) distances_[longer] += edit_distance(said, meant);
}

train::Measures WordScores::measures() const {
  const auto number = [](std::int64_t value) { return torch::tensor(static_cast<double>(value), torch::kDouble); };
  const auto words = static_cast<double>(words_);
  train::Measures measures{{std::string(kExact), {number(exact_), words}}};
  for (const auto& [length, distance] : distances_) {
    measures.emplace(fmt::format("{}{}", kDistance, length), train::Measure{number(distance), words});
  }
  return measures;
}

train::Values word_values(const train::Sums& sums) {
  const auto exact = sums.find(kExact);
  if (exact == sums.end() || exact->second.count == 0) {
    fail(ErrorKind::data, "metrics", "there is no word to measure: the evaluation data has none that can be used");
  }
  const auto words = exact->second.count;
  // Sorted by length, because the order of names is different.
  std::map<std::int64_t, double> distances;
  for (const auto& [name, sum] : sums) {
    if (!name.starts_with(kDistance)) continue;
    distances.emplace(parse_integer(std::string_view(name).substr(kDistance.size())).value(), sum.sum);
  }
  double total = 0;
  for (const auto& [length, distance] : distances) total += distance / static_cast<double>(length);
  return {{"accuracy", exact->second.sum / words}, {"norm_edit_distance", 1 - total / words}};
}

}  // namespace lockstep::ocr
