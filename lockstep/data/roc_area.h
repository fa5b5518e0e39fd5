// The area under the ROC curve (AUC): a measure of how well scores order two classes.
#pragma once

#include <optional>
#include <vector>

namespace lockstep::data {

struct ScoredSample {
  double score = 0;
  bool positive = false;
};

/// The probability that a random positive sample has a higher score than a random negative one, where equal scores
/// count half: exact, by sorting, whatever the order of the samples. nullopt when one of the classes has none; NaN when
/// a score is NaN. At most 2^32 samples.
std::optional<double> roc_area(std::vector<ScoredSample> samples);

}  // namespace lockstep::data
