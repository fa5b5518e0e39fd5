// Histogram buckets whose limits grow by 10 % from 1e-12 on both sides of 0, and the count of finite values in them.
#include <lockstep/train/viewers/histogram.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::train {
namespace {

std::vector<double> make_limits() {
  constexpr double kSmallest = 1e-12, kLargest = 1e20, kRatio = 1.1;
  std::vector<double> positive;
  for (double limit = kSmallest; limit < kLargest; limit *= kRatio) positive.push_back(limit);
  std::vector<double> limits;
  std::transform(positive.rbegin(), positive.rend(), std::back_inserter(limits), std::negate());
  limits.push_back(0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  limits.push_back(std::numeric_limits<double>::max());
  return limits;
}

std::size_t bucket_of(double value, std::span<const double> limits) {
  const auto above = std::ranges::upper_bound(limits, value);
  // Nothing is above the largest double.
  return std::min(static_cast<std::size_t>(above - limits.begin()), limits.size() - 1);
}

template <typename Real>
Histogram make_histogram(std::span<const Real> values) {
  const auto limits = histogram_limits();
  Histogram made;
  std::vector<double> counts(limits.size());
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    made.min = made.num == 0 ? value : std::min(made.min, value);
    made.max = made.num == 0 ? value : std::max(made.max, value);
    made.num += 1;
    made.sum += value;
    made.sum_squares += value * value;
    counts[bucket_of(value, limits)] += 1;
  }
  if (made.num == 0) return made;
  const auto first = static_cast<std::ptrdiff_t>(bucket_of(made.min, limits));
  const auto end = static_cast<std::ptrdiff_t>(bucket_of(made.max, limits)) + 1;
  made.limits.assign(limits.begin() + first, limits.begin() + end);
  made.counts.assign(counts.begin() + first, counts.begin() + end);
  return made;
}

}  // namespace

std::span<const double> histogram_limits() {
  static const std::vector<double> limits = make_limits();
  return limits;
}

Histogram histogram_of(std::span<const float> values) { return make_histogram(values); }

Histogram histogram_of(std::span<const double> values) { return make_histogram(values); }

}  // namespace lockstep::train
