// The data of a run on one rank: its pipeline, and its shares of the splits.
#pragma once

#include <lockstep/data/dataset.h>
#include <lockstep/data/loader.h>
#include <lockstep/data/pipeline.h>
#include <lockstep/data/sampler.h>
#include <lockstep/train/config.h>

#include <memory>

namespace lockstep::train {

/// The transforms from a stored picture of data.name to the model's input, for training (with augmentation) or
/// evaluation. Reads no picture. Error(config) with the position in the file.
data::Pipeline make_pipeline(const DataConfig& config, data::Split split);

/// One split: all pictures, and this rank's share of them.
struct RankData {
  std::shared_ptr<const data::Dataset> dataset;
  data::Pipeline pipeline;
  data::ShardedSampler sampler;
  data::LoaderOptions loading;

  std::unique_ptr<data::Loader> make_loader() const;
};

/// Shuffled and augmented as configured. Error(data), Error(io) from the files; Error(config) when the model has fewer
/// outputs than the data set has classes, or nothing would be left to train on.
RankData load_train_data(const RunConfig& config, int rank, int world_size);

/// The test split in its own order, every picture on exactly one rank. Errors as above.
RankData load_eval_data(const RunConfig& config, int rank, int world_size);

}  // namespace lockstep::train
