// The exact AUC: one pass over sorted scores that counts ordered pairs in whole numbers; ties count half.
#include <lockstep/data/roc_area.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lockstep::data {

std::optional<double> roc_area(std::vector<ScoredSample> samples) {
  if (std::ranges::any_of(samples, [](const ScoredSample& each) { return std::isnan(each.score); })) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::ranges::sort(samples, {}, &ScoredSample::score);
  std::uint64_t positives = 0, negatives = 0;
  std::uint64_t halves = 0;  // pairs in the right order count two, ties one
  for (auto first = samples.begin(); first != samples.end();) {
    std::uint64_t own_positives = 0, own_negatives = 0;
    auto last = first;
    for (; last != samples.end() && last->score == first->score; ++last)
      ++(last->positive ? own_positives : own_negatives);
    halves += own_positives * (2 * negatives + own_negatives);
    positives += own_positives;
    negatives += own_negatives;
    first = last;
  }
  if (positives == 0 || negatives == 0) return std::nullopt;
  return static_cast<double>(halves) / (2 * static_cast<double>(positives) * static_cast<double>(negatives));
}

}  // namespace lockstep::data
