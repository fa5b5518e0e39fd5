// The comparison of read words with their labels: accuracy and normalized edit distance, as sums that are exact in any
// order.
#pragma once

#include <apps/ocr/recognition/dictionary.h>
#include <lockstep/base/config.h>
#include <lockstep/train/task.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace lockstep::ocr {

/// The differences that a comparison ignores.
struct WordFilter {
  bool ignore_case = true;
  bool ignore_space = true;
  bool ignore_outside = true;   ///< characters of the label that are not in the dictionary
  bool ignore_symbols = false;  ///< everything except ASCII letters and digits and Chinese characters, on both sides
};
void describe_filter(ConfigFields& fields, WordFilter& filter);

/// The least number of characters to insert, remove or replace (Levenshtein).
std::int64_t edit_distance(std::u32string_view a, std::u32string_view b);

/// Sums over words. Distances are added separately for each length of the longer word, as integers, so that any
/// division of the words among ranks and batches gives the same values to the last digit.
class WordScores {
 public:
  void add(std::string_view read, std::string_view label, const WordFilter& filter, const Dictionary& dictionary);

  std::int64_t words() const { return words_; }
  std::int64_t exact() const { return exact_; }
  const std::map<std::int64_t, std::int64_t>& distances() const { return distances_; }  ///< by the longer length

  train::Measures measures() const;

 private:
  std::int64_t words_ = 0;
  std::int64_t exact_ = 0;
  std::map<std::int64_t, std::int64_t> distances_;
};

/// `accuracy`, exact matches by words, and `norm_edit_distance`, 1 - mean(distance / longer length), from the sums of
/// measures(); other sums are ignored. Error(data) for no words.
train::Values word_values(const train::Sums& sums);

}  // namespace lockstep::ocr
