// A data set that is another one, but for what a derived class changes.
#pragma once

#include <lockstep/samples/dataset.h>

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

}  // namespace lockstep::samples
