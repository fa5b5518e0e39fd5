// The data loader: makes batches ahead of the training loop, on several threads, and delivers them in order.
#pragma once

#include <lockstep/data/batch.h>
#include <lockstep/data/dataset.h>
#include <lockstep/data/pipeline.h>
#include <lockstep/data/sampler.h>

#include <cstdint>
#include <memory>

namespace lockstep::data {

struct LoaderOptions {
  int workers = 0;         ///< worker threads; 0: `next` makes the batch in the caller's thread
  int prefetch = 0;        ///< batches ready or in progress at a time; 0: two for each worker. Unused without workers.
  std::uint64_t seed = 0;  ///< seed of the random transforms
};

/// Error(invalid_argument) unless there are 0 to 1024 workers and 0 to 65536 batches ahead.
void check_loader_options(const LoaderOptions& options);

/// Batches that are ready or in progress at a time, at least 1.
int batches_ahead(const LoaderOptions& options);

/// Makes batches ahead of their use. A sample depends only on (seed, epoch, index), not on workers, ranks, or the step
/// at which an epoch was resumed. Not thread-safe: one consumer thread. The destructor may run at any time and waits
/// only for the pictures in progress.
class Loader {
 public:
  /// Error(invalid_argument) for options out of range (0 to 1024 workers, 0 to 65536 batches ahead) or arguments that
  /// do not match: the pipeline's input shape or the sampler's number of records differs from that of `dataset`.
  /// Error(io) when threads cannot be started.
  Loader(std::shared_ptr<const Dataset> dataset, Pipeline pipeline, const ShardedSampler& sampler,
         const LoaderOptions& options);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  /// Starts at step `step` of epoch `epoch`, and drops unfinished batches. Error(invalid_argument) unless epoch >= 0
  /// and 0 <= step <= steps_per_epoch().
  void start(std::int64_t epoch, std::int64_t step = 0);

  /// The next batch; nullptr after the last one of the epoch, or before the first `start`. An error while making
  /// a batch is thrown here when its turn comes, and again by each further call until `start`. The batch's memory is
  /// reused once its last owner releases it.
  std::shared_ptr<Batch> next();

  const ShardedSampler& sampler() const;
  const Pipeline& pipeline() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::data
