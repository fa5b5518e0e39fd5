// The distributed sampler: which records each rank reads, and in which order; and how many threads make batches of
// them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::data {

// The order is a pure function of the options, the epoch and the step.

/// The handling of records that do not fill a batch on every rank.
enum class Remainder {
  drop,   ///< they are left out: every rank has the same number of full batches
  pad,    ///< records are repeated from the start of the order until every rank has equally many; the last batch may be
          ///< short. With a global batch size: until the last global batch is full, for any number of ranks
  exact,  ///< no record is left out or repeated: the last batches may be short, of different sizes, and empty on some
          ///< ranks
};

struct SamplerOptions {
  std::int64_t dataset_size = 0;
  int num_shards = 1;
  int shard_id = 0;
  bool shuffle = true;
  std::uint64_t seed = 0;
  Remainder remainder = Remainder::drop;
  std::int64_t batch_size = 1;  ///< records of one rank in one step
  /// Records of all ranks in one step; 0: num_shards * batch_size. If it is not a multiple of num_shards, the first
  /// ranks have one record more; with fewer records than ranks, the last ranks have no record.
  std::int64_t global_batch_size = 0;
};

/// One rank's batches of one epoch.
class EpochOrder {
 public:
  EpochOrder(std::vector<std::int64_t> indices, std::int64_t batch_size, std::int64_t steps);

  std::int64_t steps() const { return steps_; }

  /// The records of a step, 0 <= step < steps(); may be empty with Remainder::exact. Error(invalid_argument) for a step
  /// out of range. The span is valid as long as this object.
  std::span<const std::int64_t> batch(std::int64_t step) const;

  /// The records of all steps, step after step.
  std::span<const std::int64_t> indices() const { return indices_; }

 private:
  std::vector<std::int64_t> indices_;
  std::int64_t batch_size_;
  std::int64_t steps_;
};

/// The sampler of one rank. The order of an epoch is one permutation of the data set by (seed, epoch), the same on
/// every rank: a Fisher-Yates shuffle from the last position down, with RandomStream(seed, order, {epoch}); the
/// identity without shuffle. Step t covers the positions [t * G, (t + 1) * G), where G is the global batch size: the
/// records of a step depend on G only, not on the number of ranks. Of a step's positions, rank `shard_id` takes those
/// with offset shard_id, shard_id + num_shards, and so on.
///
/// A run is resumed by (epoch, step); there is no other state. Thread-safe.
class ShardedSampler {
 public:
  /// Error(invalid_argument) for options out of range, when Remainder::drop would leave no batch at all, and when
  /// Remainder::pad would fill a global batch with records that are in it already.
  explicit ShardedSampler(const SamplerOptions& options);

  const SamplerOptions& options() const { return options_; }

  /// The number of steps, the same for every epoch and on every rank.
  std::int64_t steps_per_epoch() const { return steps_; }

  /// The number of records of a step over all ranks, including repeated ones. Error(invalid_argument) unless 0 <= step
  /// < steps_per_epoch().
  std::int64_t global_batch_size(std::int64_t step) const;

  /// This rank's batches of an epoch. Time and memory are proportional to the size of the data set.
  /// Error(invalid_argument) for a negative epoch.
  EpochOrder epoch(std::int64_t epoch) const;

 private:
  SamplerOptions options_;
  std::int64_t global_batch_ = 0;
  std::int64_t places_ = 0;  ///< number of positions of all steps and ranks
  std::int64_t steps_ = 0;
};

/// The threads that make batches ahead of their use.
struct LoaderOptions {
  int workers = 0;         ///< worker threads; 0: the thread that takes the batch makes it
  int prefetch = 0;        ///< batches ready or in progress at a time; 0: two for each worker. Unused without workers.
  std::uint64_t seed = 0;  ///< seed of the random transforms
};

/// Error(invalid_argument) unless there are 0 to 1024 workers and 0 to 65536 batches ahead.
void check_loader_options(const LoaderOptions& options);

/// Batches that are ready or in progress at a time, at least 1.
int batches_ahead(const LoaderOptions& options);

}  // namespace lockstep::data
