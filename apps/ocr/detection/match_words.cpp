// ICDAR 2015's greedy matching of words by intersection over union, and precision, recall and hmean of its counts.
#include <apps/ocr/detection/match_words.h>

#include <algorithm>
#include <iterator>

namespace lockstep::ocr {
namespace {

constexpr double kHalf = 0.5;

struct Found {
  Polygon polygon;
  double size = 0;
  bool counts = true;
  bool taken = false;
};

}  // namespace

MatchCounts match_words(const Words& truth, const std::vector<Polygon>& found) {
  Words words;
  std::ranges::copy_if(truth, std::back_inserter(words), [](const Word& word) { return is_simple(word.polygon); });
  std::vector<Found> candidates;
  for (const auto& polygon : found) {
    if (is_simple(polygon)) candidates.push_back({polygon, area(polygon)});
  }
  MatchCounts counts;
  for (auto& candidate : candidates) {
    candidate.counts = std::ranges::none_of(words, [&](const Word& word) {
      return word.ignored && overlap(word.polygon, candidate.polygon) > kHalf * candidate.size;
    });
    counts.found += candidate.counts ? 1 : 0;
  }
  for (const auto& word : words) {
    if (word.ignored) continue;
    ++counts.truth;
    const double size = area(word.polygon);
    for (auto& candidate : candidates) {
      if (candidate.taken || !candidate.counts) continue;
      const double common = overlap(word.polygon, candidate.polygon);
      if (common <= kHalf * (size + candidate.size - common)) continue;
      candidate.taken = true;
      ++counts.matched;
      break;
    }
  }
  return counts;
}

MatchRates rates_of(double matched, double truth, double found) {
  MatchRates rates;
  if (found > 0) rates.precision = matched / found;
  if (truth > 0) rates.recall = matched / truth;
  const double sum = rates.precision + rates.recall;
  if (sum > 0) rates.hmean = 2 * rates.precision * rates.recall / sum;
  return rates;
}

}  // namespace lockstep::ocr
