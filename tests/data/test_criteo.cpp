// Clicks in Criteo's format: made up, read, indexed; and the area under the ROC curve.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/data/criteo.h>
#include <lockstep/data/roc_area.h>
#include <lockstep/data/sampler.h>
#include <lockstep/data/synthesize.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "base/expect_error.h"
#include "support/forks.h"
#include "support/read_file.h"

namespace lockstep::data {
namespace {

using test::expect_error;
using test::read_file;

// FNV-1a.
std::uint64_t fingerprint_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

double brute_force_area(const std::vector<ScoredSample>& samples) {
  double pairs = 0, right = 0;
  for (const auto& p : samples) {
    for (const auto& n : samples) {
      if (!p.positive || n.positive) continue;
      ++pairs;
      right += p.score > n.score ? 1 : p.score == n.score ? 0.5 : 0;
    }
  }
  return right / pairs;
}

TEST(RocArea, IsThatOfAllPairsWithTies) {
  RandomStream random(5, RandomPurpose::named_step, {});
  for (int round = 0; round < 200; ++round) {
    std::vector<ScoredSample> samples{{.score = 0, .positive = true}, {.score = 0, .positive = false}};
    const auto size = random.below(60);
    const auto distinct = 1 + random.below(20);
    for (std::uint64_t i = 0; i < size; ++i) {
      samples.push_back({static_cast<double>(random.below(distinct)) - 5, random.below(3) == 0});
    }
    EXPECT_NEAR(roc_area(samples).value(), brute_force_area(samples), 1e-14);
  }
}

TEST(RocArea, OfOneClassThereIsNone) {
  EXPECT_FALSE(roc_area({}).has_value());
  EXPECT_FALSE(roc_area({{1, true}, {2, true}}).has_value());
  EXPECT_FALSE(roc_area({{1, false}}).has_value());
  EXPECT_TRUE(std::isnan(roc_area({{std::nan(""), true}, {2, false}}).value()));
}

TEST(ExactMath, IsThatOfTheLibraryButForTheLastBits) {
  for (double x = 1e-12; x < 1e12; x *= 1.37)
    EXPECT_NEAR(exact_log(x), std::log(x), 2e-15 * std::fabs(std::log(x)) + 1e-16);
  for (double x = -600; x < 600; x += 0.37) EXPECT_NEAR(exact_exp(x) / std::exp(x), 1, 1e-13);
  EXPECT_EQ(exact_exp(0), 1);
  EXPECT_EQ(exact_log(1), 0);
  EXPECT_EQ(signed_log(-3), -signed_log(3));
}

class SyntheticClicks : public testing::Test {
 protected:
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  CriteoTeacher make(const std::string& name, const CriteoRecipe& recipe) const {
    return synthesize_criteo(path(name), recipe);
  }
  std::vector<CriteoRow> rows_of(const std::string& name, std::string_view file = kCriteoTrain) const {
    std::vector<CriteoRow> rows;
    std::ifstream in(path(name) / file);
    for (std::string line; std::getline(in, line);) rows.push_back(parse_criteo_line(line, {"f", 1}));
    return rows;
  }

  TemporaryFolder folder_;
};

TEST_F(SyntheticClicks, AreTheSameBytesOnEveryMachine) {
  make("a", {.rows = 300, .test_rows = 50, .scale = 0.001, .seed = 1});
  EXPECT_EQ(fingerprint_of(read_file(path("a") / kCriteoTrain)), 17666724542108210620ULL);
  EXPECT_EQ(fingerprint_of(read_file(path("a") / kCriteoTest)), 6672242399627075104ULL);
  EXPECT_EQ(fingerprint_of(read_file(path("a") / "teacher.json")), 305263052476796126ULL);
}

TEST_F(SyntheticClicks, OfALargerSetBeginWithThoseOfASmallerOne) {
  make("a", {.rows = 300, .test_rows = 50, .scale = 0.001, .seed = 1});
  make("b", {.rows = 100, .test_rows = 80, .scale = 0.001, .seed = 1});
  make("c", {.rows = 100, .test_rows = 80, .scale = 0.001, .seed = 2});
  EXPECT_TRUE(read_file(path("a") / kCriteoTrain).starts_with(read_file(path("b") / kCriteoTrain)));
  EXPECT_NE(read_file(path("b") / kCriteoTrain), read_file(path("c") / kCriteoTrain));
  EXPECT_NE(read_file(path("b") / kCriteoTest), read_file(path("b") / kCriteoTrain).substr(0, 4000));
}

TEST_F(SyntheticClicks, HaveTheSharesAndCategoriesThatTheyShould) {
  constexpr double kRows = 20'000;
  const auto teacher = make("a", {.rows = 20'000, .test_rows = 20'000, .scale = 0.001, .seed = 3});
  const auto rows = rows_of("a");
  ASSERT_EQ(rows.size(), 20'000U);
  EXPECT_NEAR(teacher.test_rate, 0.256, 0.02);
  EXPECT_GT(teacher.test_auc, 0.75);
  EXPECT_LT(teacher.test_auc, 0.88);
  for (std::size_t c = 0; c < kCriteoCategories; ++c) {
    std::map<std::uint32_t, double> counts;
    double empty = 0;
    for (const auto& row : rows) {
      if (row.categories[c]) ++counts[*row.categories[c]];
      empty += row.categories[c] ? 0 : 1;
    }
    const auto most = std::max(3.0, std::floor(static_cast<double>(kCriteoCardinalities[c]) * 0.001 + 0.5));
    EXPECT_LE(static_cast<double>(counts.size()), most) << "column " << c;
    EXPECT_NEAR(empty / kRows, 0.05, 0.01) << "column " << c;
    // Zipf: the second most frequent category has 2^-1.1 of the most frequent one's share.
    std::vector<double> shares;
    for (const auto& [category, count] : counts) shares.push_back(count);
    std::ranges::sort(shares, std::greater<>());
    EXPECT_NEAR(shares[1] / shares[0], std::pow(2, -1.1), 0.06) << "column " << c;
  }
  EXPECT_TRUE(std::ranges::any_of(rows, [](const auto& row) { return row.numbers[1].value_or(0) < 0; }));
}

TEST_F(SyntheticClicks, NeverOverwriteWhatMayBeReal) {
  std::filesystem::create_directories(path("a"));
  std::ofstream(path("a") / kCriteoTrain) << "real";
  expect_error(ErrorKind::invalid_argument, {"train.txt", "SYNTHETIC.txt"}, [&] { make("a", {.rows = 10}); });
  EXPECT_EQ(read_file(path("a") / kCriteoTrain), "real");
  expect_error(ErrorKind::invalid_argument, {"scale", "0"}, [&] { make("b", {.rows = 10, .scale = 0}); });
  expect_error(ErrorKind::invalid_argument, {"train rows is 0"}, [&] { make("b", {.rows = 0}); });
}

std::string line_with(std::size_t column, const std::string& cell) {
  std::vector<std::string> cells(1 + kCriteoFields);
  cells[0] = "1";
  cells[column - 1] = cell;
  std::string line = cells[0];
  for (std::size_t i = 1; i < cells.size(); ++i) line += "\t" + cells[i];
  return line;
}

TEST(CriteoLines, AreReadStrictly) {
  const auto row = parse_criteo_line(line_with(3, "-2"), {});
  EXPECT_TRUE(row.clicked);
  EXPECT_EQ(row.numbers[1], -2);
  EXPECT_FALSE(row.numbers[0].has_value());
  EXPECT_EQ(parse_criteo_line(line_with(15, "00ffAB10"), {}).categories[0], 0x00ffab10U);
  EXPECT_EQ(parse_criteo_line(line_with(40, "0000000a") + "\r", {}).categories[25], 10U);
  const FilePosition position{"clicks.txt", 7};
  const auto refused = [&](const std::string& line, std::initializer_list<std::string_view> words) {
    const auto error = expect_error(ErrorKind::data, words, [&] { parse_criteo_line(line, position); });
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->position().line, 7);
  };
  refused(line_with(1, "2"), {"column 1", "'2'", "clicks.txt:7"});
  refused(line_with(5, "1.5"), {"column 5", "'1.5'", "whole number"});
  refused(line_with(5, "99999999999999999999"), {"column 5"});
  refused(line_with(15, "12345"), {"column 15", "hexadecimal"});
  refused(line_with(40, "0000000g"), {"column 40", "'0000000g'"});
  refused("", {"1 column"});
  refused(line_with(2, "") + "\t", {"41 column"});
  refused(line_with(2, "").substr(2), {"39 columns", "no labels", "eval_share"});
}

class LineFiles : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) const {
    const auto file = folder_.path() / "lines.txt";
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }
  LineFile open() const { return {folder_.path() / "lines.txt", "data.root", folder_.path(), "data.cache"}; }

  TemporaryFolder folder_;
};

TEST_F(LineFiles, GiveEachLine) {
  std::string text;
  std::vector<std::string> lines;
  for (int i = 0; i < 200; ++i) {
    lines.push_back(std::string(static_cast<std::size_t>(i * 7 % 40), 'x') + std::to_string(i));
    text += lines.back() + "\n";
  }
  write(text);
  for (int round = 0; round < 2; ++round) {  // the second time from the index
    const auto file = open();
    ASSERT_EQ(file.size(), 200);
    for (std::int64_t i = 199; i >= 0; --i) EXPECT_EQ(file.line(i), lines[static_cast<std::size_t>(i)]);
  }
}

TEST_F(LineFiles, CountALastLineWithoutEndAndEmptyOnes) {
  const std::map<std::string, std::int64_t> sizes{{"", 0}, {"\n", 1}, {"a", 1}, {"a\n", 1}, {"a\nb", 2}, {"\n\n", 2}};
  for (const auto& [text, lines] : sizes) {
    write(text);
    EXPECT_EQ(open().size(), lines) << '"' << text << '"';
  }
}

TEST_F(LineFiles, AreIndexedAgainWhenTheyWereChangedOrTheIndexWas) {
  write("a\nb\n");
  EXPECT_EQ(open().size(), 2);
  write("a\nb\nc\n");
  EXPECT_EQ(open().size(), 3);
  std::filesystem::resize_file(folder_.path() / "lines.txt.lines", 100);
  EXPECT_EQ(open().line(2), "c");
  std::ofstream(folder_.path() / "lines.txt.lines") << std::string(1000, 'x');
  EXPECT_EQ(open().line(2), "c");
}

TEST_F(LineFiles, AreIndexedOnceByManyProcesses) {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += std::to_string(i) + "\n";
  write(text);
  test::fork_ranks(4, {}, [&](int) {
    const auto file = open();
    EXPECT_EQ(file.size(), 50'000);
    EXPECT_EQ(file.line(33'333), "33333");
  });
}

TEST_F(LineFiles, SayWhereTheIndexCannotBeWritten) {
  const auto file = write("a\n");
  expect_error(ErrorKind::io, {"data.cache", "give one that can be written"},
               [&] { LineFile(file, "data.root", folder_.path() / "missing", "data.cache"); });
}

TEST_F(SyntheticClicks, GetRowsByAVocabularyOfCounts) {
  make("a", {.rows = 2000, .test_rows = 10, .scale = 0.001, .seed = 1});
  const LineFile file(path("a") / kCriteoTrain, "data.root", path("a"), "data.cache");
  constexpr std::int64_t kMinCount = 20;
  const CriteoVocabulary vocabulary(file, 1500, kMinCount, false, path("a"), "data.cache");
  const CriteoVocabulary again(file, 1500, kMinCount, false, path("a"), "data.cache");
  std::array<std::map<std::uint32_t, std::int64_t>, kCriteoCategories> counts;
  const auto rows = rows_of("a");
  for (std::size_t i = 0; i < 1500; ++i) {
    for (std::size_t c = 0; c < kCriteoCategories; ++c) {
      if (rows[i].categories[c]) ++counts[c][*rows[i].categories[c]];
    }
  }
  std::int64_t next = kCriteoFixedRows + static_cast<std::int64_t>(kCriteoCategories);
  for (std::size_t c = 0; c < kCriteoCategories; ++c) {
    for (const auto& [category, count] : counts[c]) {
      const bool known = count >= kMinCount;
      EXPECT_EQ(vocabulary.row_of(c, category), known ? next : kCriteoFixedRows + static_cast<std::int64_t>(c));
      EXPECT_EQ(again.row_of(c, category), vocabulary.row_of(c, category));
      next += known ? 1 : 0;
    }
  }
  EXPECT_EQ(vocabulary.rows(), next);
}

TEST(CriteoFields, HaveARowOfTheirOwnWhereACellIsEmpty) {
  CriteoRow row;
  row.numbers[3] = 6;
  row.numbers[4] = -6;
  row.categories[2] = 77;
  const auto fields =
      fields_of(row, [](std::size_t column, std::uint32_t category) { return hashed_row(column, category, 1000); });
  EXPECT_EQ(fields.rows[3], 3);
  EXPECT_FLOAT_EQ(fields.weights[3], std::log(7.0F));
  EXPECT_FLOAT_EQ(fields.weights[4], -std::log(7.0F));
  EXPECT_EQ(fields.rows[0], 13);
  EXPECT_EQ(fields.weights[0], 1);
  EXPECT_EQ(fields.rows[13], 26);
  EXPECT_EQ(fields.rows[13 + 2], hashed_row(2, 77, 1000));
  std::set<std::int64_t> places;
  for (std::uint32_t category = 0; category < 2000; ++category) {
    const auto place = hashed_row(5, category, 1000);
    EXPECT_GE(place, kCriteoFixedRows);
    EXPECT_LT(place, 1000);
    places.insert(place);
  }
  EXPECT_GT(places.size(), 800U);
}

}  // namespace
}  // namespace lockstep::data
