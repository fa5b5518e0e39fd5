// A data set that is another one, but for what a derived class changes; and one such, the balanced sampling of classes
// of unequal size.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/data/pictures.h>
#include <lockstep/samples/dataset.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::samples {

class ChangedDataset : public Dataset {
 public:
  explicit ChangedDataset(std::shared_ptr<const Dataset> dataset) : dataset_(std::move(dataset)) {}

  std::int64_t size() const override { return dataset_->size(); }
  Sample get(std::int64_t index, const Chance& chance) const override { return dataset_->get(index, chance); }
  Batch collate(std::vector<Sample> samples) const override { return dataset_->collate(std::move(samples)); }
  std::vector<std::string> classes() const override { return dataset_->classes(); }
  std::vector<std::pair<std::string, std::string>> known_as(std::int64_t index) const override {
    return dataset_->known_as(index);
  }
  bool leaves_out_errors() const override { return dataset_->leaves_out_errors(); }
  data::EpochOrder order(const data::ShardedSampler& sampler, std::int64_t epoch) const override {
    return dataset_->order(sampler, epoch);
  }

 protected:
  const Dataset& dataset() const { return *dataset_; }

 private:
  std::shared_ptr<const Dataset> dataset_;
};

/// The key `sampling` of a data set: "each" or "balanced".
void describe_sampling(ConfigFields& fields, std::string& sampling);

/// Returns `dataset` unchanged, or with `sampling` balanced, for training, in another order, in which samples of rare
/// classes occur several times. An epoch then has as many samples as before. Each class that occurs has the same number
/// of samples (except for one), which cycle through all samples of the class. `labels` has the class of each sample.
/// The order follows from the sampler's seed and the epoch, for any number of ranks. The counts are logged.
std::shared_ptr<const Dataset> with_sampling(std::shared_ptr<const Dataset> dataset, const std::string& sampling,
                                             data::Split split, const std::vector<std::int64_t>& labels);

}  // namespace lockstep::samples
