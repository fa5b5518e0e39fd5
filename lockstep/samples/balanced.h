// Balanced sampling of classes of unequal size: samples of rare classes occur several times in an epoch.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/data/pictures.h>
#include <lockstep/samples/dataset.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::samples {

/// The key `sampling` of a data set: "each" or "balanced".
void describe_sampling(ConfigFields& fields, std::string& sampling);

/// Returns `dataset` unchanged, or with `sampling` balanced, for training, in another order. An epoch then has as many
/// samples as before. Each class that occurs has the same number of samples (except for one), which cycle through all
/// samples of the class. `labels` has the class of each sample. The order follows from the sampler's seed and the
/// epoch, for any number of ranks. The counts are logged.
std::shared_ptr<const Dataset> with_sampling(std::shared_ptr<const Dataset> dataset, const std::string& sampling,
                                             data::Split split, const std::vector<std::int64_t>& labels);

}  // namespace lockstep::samples
