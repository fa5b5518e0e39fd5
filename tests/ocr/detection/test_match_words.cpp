// ICDAR's metric: cases by hand, and a matcher that is written down from the rules and counts pixels.
#include <apps/ocr/detection/match_words.h>
#include <gtest/gtest.h>
#include <lockstep/data/sampler.h>

#include <algorithm>
#include <vector>

namespace lockstep::test {
namespace {

using ocr::Polygon;

Polygon box(double x1, double y1, double x2, double y2) { return {{x1, y1}, {x2, y1}, {x2, y2}, {x1, y2}}; }

void expect_counts(const ocr::Words& truth, const std::vector<Polygon>& found, std::int64_t matched, std::int64_t words,
                   std::int64_t detections) {
  const auto counts = ocr::match_words(truth, found);
  EXPECT_EQ(counts.matched, matched);
  EXPECT_EQ(counts.truth, words);
  EXPECT_EQ(counts.found, detections);
}

TEST(MatchWords, CountsAsIcdarDoes) {
  const ocr::Words truth{
      {box(0, 0, 100, 20)}, {box(200, 0, 300, 20)}, {box(0, 100, 80, 120)}, {box(400, 0, 500, 20), true}};
  const std::vector<Polygon> found{box(0, 0, 95, 20),    box(5, 0, 100, 20),   box(200, 0, 240, 20),
                                   box(410, 0, 480, 20), box(600, 0, 650, 20), box(470, 0, 540, 20)};
  expect_counts(truth, found, 1, 3, 5);
  const auto rates = ocr::rates_of(1, 3, 5);
  EXPECT_DOUBLE_EQ(rates.recall, 1.0 / 3);
  EXPECT_DOUBLE_EQ(rates.precision, 0.2);
  EXPECT_DOUBLE_EQ(rates.hmean, 0.25);
}

TEST(MatchWords, SplitMergedAndRepeatedWords) {
  const ocr::Words one{{box(0, 0, 100, 20)}};
  expect_counts(one, {box(0, 0, 50, 20), box(50, 0, 100, 20)}, 0, 1, 2);  // two halves: each has exactly one half
  expect_counts(one, {box(0, 0, 51, 20), box(51, 0, 100, 20)}, 1, 1, 2);
  expect_counts({{box(0, 0, 50, 20)}, {box(50, 0, 100, 20)}}, {box(0, 0, 100, 20)}, 0, 2, 1);
  expect_counts(one, {box(0, 0, 100, 20), box(0, 0, 100, 20)}, 1, 1, 2);
  expect_counts({{box(0, 0, 100, 20)}, {box(0, 0, 100, 20)}}, {box(0, 0, 100, 20)}, 1, 2, 1);
  expect_counts(one, {}, 0, 1, 0);
  expect_counts({}, {box(0, 0, 9, 9)}, 0, 0, 1);
}

TEST(MatchWords, IgnoredWordsCountNeitherWay) {
  const ocr::Words ignored{{box(0, 0, 100, 20), true}};
  expect_counts(ignored, {box(0, 0, 100, 20), box(10, 0, 20, 20)}, 0, 0, 0);
  expect_counts(ignored, {box(50, 0, 150, 20)}, 0, 0, 1);  // exactly half is not more than half
  expect_counts(ignored, {box(49, 0, 149, 20)}, 0, 0, 0);
  // Two ignored words cover it together, but neither alone.
  expect_counts({{box(0, 0, 40, 20), true}, {box(60, 0, 100, 20), true}}, {box(0, 0, 100, 20)}, 0, 0, 1);
}

TEST(MatchWords, LeavesOutWhatIsNoPolygon) {
  const Polygon crossed{{0, 0}, {100, 20}, {100, 0}, {0, 20}}, line{{0, 0}, {100, 0}, {50, 0}, {10, 0}};
  expect_counts({{box(0, 0, 100, 20)}, {crossed}, {line}}, {crossed, line, box(0, 0, 100, 20)}, 1, 1, 1);
}

TEST(MatchWords, NothingIsZeroNotNan) {
  const auto rates = ocr::rates_of(0, 0, 0);
  EXPECT_EQ(rates.precision, 0);
  EXPECT_EQ(rates.recall, 0);
  EXPECT_EQ(rates.hmean, 0);
}

/// Boxes with whole corners: areas are numbers of cells.
struct Cells {
  int x1, y1, x2, y2;

  long size() const { return static_cast<long>(x2 - x1) * (y2 - y1); }
  long common(const Cells& other) const {
    long count = 0;
    for (int y = y1; y < y2; ++y) {
      for (int x = x1; x < x2; ++x) count += x >= other.x1 && x < other.x2 && y >= other.y1 && y < other.y2 ? 1 : 0;
    }
    return count;
  }
  Polygon polygon() const { return box(x1, y1, x2, y2); }
};

Cells random_cells(data::RandomStream& stream) {
  const auto below = [&](std::uint64_t limit) { return static_cast<int>(stream.below(limit)); };
  const int x = below(20), y = below(10);
  return {x, y, x + 1 + below(12), y + 1 + below(6)};
}

TEST(MatchWords, EqualsAMatcherThatCountsCells) {
  std::int64_t all_matched = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    data::RandomStream stream(seed, data::RandomPurpose::synthesize, {});
    std::vector<Cells> truth, found;
    std::vector<bool> ignored;
    for (auto count = stream.below(7); count > 0; --count) {
      truth.push_back(random_cells(stream));
      ignored.push_back(stream.below(4) == 0);
    }
    for (auto count = stream.below(9); count > 0; --count) {
      // Half of them near a word.
      auto cells = random_cells(stream);
      if (!truth.empty() && stream.below(2) == 0) {
        cells = truth[stream.below(truth.size())];
        cells.x2 += static_cast<int>(stream.below(3));
      }
      found.push_back(cells);
    }
    std::vector<bool> out(found.size()), taken(found.size());
    std::int64_t matched = 0, words = 0, detections = 0;
    for (std::size_t j = 0; j < found.size(); ++j) {
      for (std::size_t i = 0; i < truth.size(); ++i) {
        if (ignored[i] && 2 * found[j].common(truth[i]) > found[j].size()) out[j] = true;
      }
      detections += out[j] ? 0 : 1;
    }
    for (std::size_t i = 0; i < truth.size(); ++i) {
      if (ignored[i]) continue;
      ++words;
      bool done = false;
      for (std::size_t j = 0; j < found.size() && !done; ++j) {
        if (out[j] || taken[j]) continue;
        const long common = truth[i].common(found[j]);
        done = 2 * common > truth[i].size() + found[j].size() - common;
        if (done) taken[j] = true;
      }
      matched += done ? 1 : 0;
    }
    ocr::Words polygons;
    for (std::size_t i = 0; i < truth.size(); ++i) polygons.push_back({truth[i].polygon(), ignored[i]});
    std::vector<Polygon> detected;
    for (const auto& cells : found) detected.push_back(cells.polygon());
    SCOPED_TRACE(seed);
    expect_counts(polygons, detected, matched, words, detections);
    all_matched += matched;
  }
  EXPECT_GT(all_matched, 300);
}

}  // namespace
}  // namespace lockstep::test
