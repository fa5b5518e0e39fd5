// Accuracy and normalized edit distance of words: filters, and sums that are exact in any order.
#include <apps/ocr/recognition/word_distance.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/expect_error.h"

namespace lockstep::test {
namespace {

using ocr::WordFilter;
using Pairs = std::vector<std::pair<std::string, std::string>>;  // read, label

train::Sums sums_of(const Pairs& pairs, const WordFilter& filter, train::Sums sums = {}) {
  const ocr::Dictionary dictionary({}, "task");
  ocr::WordScores scores;
  for (const auto& [read, label] : pairs) scores.add(read, label, filter, dictionary);
  for (const auto& [name, measure] : scores.measures()) {
    sums[name].sum += measure.sum.item<double>();
    sums[name].count += measure.count;
  }
  return sums;
}

train::Values values_of(const Pairs& pairs, const WordFilter& filter = {}) {
  return ocr::word_values(sums_of(pairs, filter));
}

TEST(EditDistance, IsTheLeastNumberOfChanges) {
  EXPECT_EQ(ocr::edit_distance(U"", U""), 0);
  EXPECT_EQ(ocr::edit_distance(U"abc", U""), 3);
  EXPECT_EQ(ocr::edit_distance(U"", U"ab"), 2);
  EXPECT_EQ(ocr::edit_distance(U"kitten", U"sitting"), 3);
  EXPECT_EQ(ocr::edit_distance(U"flaw", U"lawn"), 2);
  EXPECT_EQ(ocr::edit_distance(U"abc", U"abc"), 0);
}

TEST(WordValues, CountExactWordsAndShareOfChanges) {
  const auto values = values_of({{"stage", "STAGE"}, {"stag", "stage"}, {"", "ab"}, {"", "..."}});
  EXPECT_DOUBLE_EQ(values.at("accuracy"), 2.0 / 4);  // the last: nothing is left of the label
  EXPECT_DOUBLE_EQ(values.at("norm_edit_distance"), 1 - (1.0 / 5 + 1) / 4);
}

TEST(WordValues, FiltersSayWhatCounts) {
  const Pairs pairs = {{"cafe", "CAFÉ"}, {"caf", "CAFÉ"}, {"genaxistheatre", "Genaxis Theatre"}, {"10000", "$10,000"}};
  EXPECT_DOUBLE_EQ(values_of(pairs).at("accuracy"), 3.0 / 4);
  EXPECT_DOUBLE_EQ(values_of(pairs, {.ignore_outside = false}).at("accuracy"), 1.0 / 4);
  EXPECT_DOUBLE_EQ(values_of(pairs, {.ignore_outside = false, .ignore_symbols = true}).at("accuracy"), 3.0 / 4);
  EXPECT_DOUBLE_EQ(values_of({{"ab", "a b"}}, {.ignore_space = false, .ignore_outside = false}).at("accuracy"), 0);
  EXPECT_DOUBLE_EQ(values_of({{"ab", "AB"}}, {.ignore_case = false}).at("accuracy"), 0);
}

TEST(WordValues, AreTheSameToTheLastDigitHoweverWordsAreDivided) {
  std::mt19937 random(5);
  const auto word = [&] { return std::string("abcdefghijklmnop").substr(random() % 8, 1 + random() % 8); };
  Pairs pairs;
  for (int i = 0; i < 200; ++i) pairs.emplace_back(word(), word());
  const auto whole = values_of(pairs);
  for (const std::size_t part : {1, 7, 64}) {
    train::Sums sums;
    for (std::size_t i = pairs.size(); i > 0; i -= std::min(i, part)) {  // from the end
      const auto begin = i - std::min(i, part);
      sums =
          sums_of({pairs.begin() + static_cast<std::ptrdiff_t>(begin), pairs.begin() + static_cast<std::ptrdiff_t>(i)},
                  {}, std::move(sums));
    }
    EXPECT_EQ(ocr::word_values(sums), whole);
  }
}

TEST(WordValues, NoWordsAreAnError) {
  expect_error(ErrorKind::data, {"no word"}, [] { ocr::word_values({}); });
}

}  // namespace
}  // namespace lockstep::test
