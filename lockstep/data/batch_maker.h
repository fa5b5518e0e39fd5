// The filling of batches, which a loader's threads do.
#pragma once

#include <lockstep/data/batch.h>
#include <lockstep/data/dataset.h>
#include <lockstep/data/pipeline.h>
#include <lockstep/data/sampler.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace lockstep::data {

/// One epoch as entered by a loader.
struct EpochRun {
  std::int64_t epoch = 0;
  EpochOrder order;
};

/// Immutable; thread-safe with one scratch a thread.
struct BatchMaker {
  std::shared_ptr<const Dataset> dataset;
  Pipeline pipeline;
  ShardedSampler sampler;
  std::uint64_t seed = 0;

  /// Fills `batch` with step `step`. Asks `cancelled` before each picture and returns false as soon as it says so.
  bool fill(Batch& batch, const EpochRun& run, std::int64_t step, Pipeline::Scratch& scratch,
            const std::function<bool()>& cancelled) const;
};

}  // namespace lockstep::data
