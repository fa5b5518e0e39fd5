// The filling of batches, in a loader's threads.
#pragma once

#include <lockstep/data/batch.h>
#include <lockstep/data/dataset.h>
#include <lockstep/data/pipeline.h>
#include <lockstep/data/sampler.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace lockstep::data {

/// One epoch of a loader: its number and the order of this rank's records.
struct EpochRun {
  std::int64_t epoch = 0;
  EpochOrder order;
};

/// Immutable; thread-safe with one scratch per thread.
struct BatchMaker {
  std::shared_ptr<const Dataset> dataset;
  Pipeline pipeline;
  ShardedSampler sampler;
  std::uint64_t seed = 0;

  /// Fills `batch` with the records of step `step`. Calls `cancelled` before each picture, and returns false as soon as
  /// that returns true.
  bool fill(Batch& batch, const EpochRun& run, std::int64_t step, Pipeline::Scratch& scratch,
            const std::function<bool()>& cancelled) const;
};

}  // namespace lockstep::data
