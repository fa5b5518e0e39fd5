// Which of the words that were found are those that are there, by the rules of ICDAR 2015.
#pragma once

#include <lockstep/ocr/detection/targets.h>

#include <cstdint>
#include <vector>

namespace lockstep::ocr {

/// Whole numbers, so that sums over pictures and ranks are exact.
struct MatchCounts {
  std::int64_t matched = 0;
  std::int64_t truth = 0;  ///< words that can be read
  std::int64_t found = 0;  ///< words found, but for those on ignored ones
};

/// Polygons that cross themselves or have no area are left out on both sides. A found word of which more than half
/// lies on one ignored word counts neither way. Then each word, in order, is matched with the first found one that is
/// not taken, and whose common area with it is more than half of what both cover.
MatchCounts match_words(const Words& truth, const std::vector<Polygon>& found);

/// 0 for 0/0.
struct MatchRates {
  double precision = 0;
  double recall = 0;
  double hmean = 0;
};
MatchRates rates_of(double matched, double truth, double found);

}  // namespace lockstep::ocr
