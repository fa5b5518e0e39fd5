// The matching of found words with true words, by the rules of ICDAR 2015.
#pragma once

#include <apps/ocr/detection/targets.h>

#include <cstdint>
#include <vector>

namespace lockstep::ocr {

/// Counts are integers, so that sums over pictures and ranks are exact.
struct MatchCounts {
  std::int64_t matched = 0;
  std::int64_t truth = 0;  ///< true words that are readable
  std::int64_t found = 0;  ///< found words, except those on ignored words
};

/// Polygons that cross themselves or have no area are left out on both sides. A found word of which more than half lies
/// on one ignored word counts neither way. Then each word, in order, is matched with the first unmatched found word
/// whose intersection with it is more than half of their union.
MatchCounts match_words(const Words& truth, const std::vector<Polygon>& found);

/// 0 for 0/0.
struct MatchRates {
  double precision = 0;
  double recall = 0;
  double hmean = 0;
};
MatchRates rates_of(double matched, double truth, double found);

}  // namespace lockstep::ocr
