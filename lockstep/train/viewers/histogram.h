// A histogram of many values, as TensorBoard stores it.
#pragma once

#include <span>
#include <vector>

namespace lockstep::train {

/// counts[i] values lie in [limits[i - 1], limits[i]), those of the first bucket below limits[0]. `limits` ascend.
struct Histogram {
  double min = 0;
  double max = 0;
  double num = 0;  ///< of values
  double sum = 0;
  double sum_squares = 0;
  std::vector<double> limits;
  std::vector<double> counts;
};

/// The limits that histogram_of() uses: 0, and 1e-12 * 1.1^k up to 1e20 with both signs, so that small and large values
/// have the same relative resolution; then the largest double. Fixed, so that the counts of several ranks can be added
/// up.
std::span<const double> histogram_limits();

/// The histogram of the finite values (NaN and infinities are left out), with the buckets from that of the smallest
/// value to that of the largest: viewers draw the first from `min`, so an empty one before it would be drawn backwards.
/// No buckets without values.
Histogram histogram_of(std::span<const float> values);
Histogram histogram_of(std::span<const double> values);

}  // namespace lockstep::train
