// The data of a run on one rank: its shares of the splits.
#pragma once

#include <lockstep/data/sampler.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/train/config.h>
#include <lockstep/train/program.h>

#include <c10/core/Device.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

/// One split: all samples, and this rank's share of them.
struct RankData {
  std::shared_ptr<const samples::Dataset> dataset;
  data::ShardedSampler sampler;
  data::LoaderOptions loading;
  std::vector<std::string>
      reports{};  ///< for users: items of files that were left out, or that were read in an unexpected way

  /// The batches, on the CUDA device (copied while the previous one is used), else on the CPU.
  std::unique_ptr<samples::Batches> batches(const c10::Device& device) const;

  /// Makes the first batch, if this rank has one, and discards it. Errors as those of the batches.
  void try_first_batch() const;
};

/// Shuffled and augmented as configured. Error(data), Error(io) from the files; Error(config) when no training data
/// would be left.
RankData load_train_data(const RunConfig& config, const Program& program, int rank, int world_size);

/// The test split in its own order, every sample on exactly one rank; nullopt when the program has none. Errors as
/// above.
std::optional<RankData> load_eval_data(const RunConfig& config, const Program& program, int rank, int world_size);

}  // namespace lockstep::train
