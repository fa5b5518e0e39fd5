// The sampler: which records each rank sees, in which order. A pure function of the options, the epoch and the step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::data {

/// The handling of records that do not fill a batch on every rank.
enum class Remainder {
  drop,   ///< left out: every rank has the same number of full batches
  pad,    ///< records are repeated from the start of the order until every rank has equally many; the last batch may be
          ///< short. With a global batch size: until the last batch is full, however many ranks share it
  exact,  ///< nothing left out or repeated: the last batches may be short, of different sizes and empty on some ranks
};

struct SamplerOptions {
  std::int64_t dataset_size = 0;
  int num_shards = 1;
  int shard_id = 0;
  bool shuffle = true;
  std::uint64_t seed = 0;
  Remainder remainder = Remainder::drop;
  std::int64_t batch_size = 1;  ///< records a rank and step
  /// Records of all ranks a step; 0: num_shards * batch_size. Where it does not divide, the first ranks have one more,
  /// and with fewer records than ranks the last ranks have none.
  std::int64_t global_batch_size = 0;
};

/// One rank's batches of one epoch.
class EpochOrder {
 public:
  EpochOrder(std::vector<std::int64_t> indices, std::int64_t batch_size, std::int64_t steps);

  std::int64_t steps() const { return steps_; }

  /// The records of a step, 0 <= step < steps(); may be empty with Remainder::exact. Error(invalid_argument) otherwise.
  /// Valid as long as this object.
  std::span<const std::int64_t> batch(std::int64_t step) const;

  /// The records of all steps, step after step.
  std::span<const std::int64_t> indices() const { return indices_; }

 private:
  std::vector<std::int64_t> indices_;
  std::int64_t batch_size_;
  std::int64_t steps_;
};

/// The order of an epoch is one permutation of the data set by (seed, epoch), the same on every rank: Fisher-Yates from
/// the last place down, with RandomStream(seed, order, {epoch}); the identity without shuffle. Step t covers the places
/// from t * G to (t + 1) * G, where G is the global batch size: the records of a step depend on G alone, not on how
/// many ranks share them. Of a step's places, rank `shard_id` takes number shard_id, shard_id + num_shards, and so on.
///
/// A run is resumed by (epoch, step); there is no other state. Thread-safe.
class ShardedSampler {
 public:
  /// Error(invalid_argument) for options out of range, when Remainder::drop would leave no batch at all, and when
  /// Remainder::pad would fill a global batch with records that are in it already.
  explicit ShardedSampler(const SamplerOptions& options);

  const SamplerOptions& options() const { return options_; }

  /// The same for every epoch and on every rank.
  std::int64_t steps_per_epoch() const { return steps_; }

  /// Records of a step over all ranks, repeated ones included. Error(invalid_argument) unless 0 <= step <
  /// steps_per_epoch().
  std::int64_t global_batch_size(std::int64_t step) const;

  /// Takes time and memory in proportion to the data set. Error(invalid_argument) for a negative epoch.
  EpochOrder epoch(std::int64_t epoch) const;

 private:
  SamplerOptions options_;
  std::int64_t global_batch_ = 0;
  std::int64_t places_ = 0;  ///< of all steps and ranks
  std::int64_t steps_ = 0;
};

}  // namespace lockstep::data
