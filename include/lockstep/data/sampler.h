// The distributed sampler: which records each rank reads, and in which order; how many threads make batches of them;
// and random numbers as a pure function of a key.
#pragma once

#include <cstdint>
#include <initializer_list>
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

// Random numbers as a pure function of a key. No state is carried from one sample to the next, so the number of
// threads, the world size and resumption do not change them.
//
// Generator: SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014), started from a
// hash of the key. Only integer arithmetic, so the numbers are the same with every compiler and standard library.

/// The use of the numbers; the first part of every key, so that two uses never share a sequence.
enum class RandomPurpose : std::uint64_t { order = 1, transform = 2, synthesize = 3, named_step = 4, text = 5 };

/// The output function of SplitMix64: a bijection in which every input bit moves about half of the output bits.
constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

class RandomStream {
 public:
  constexpr RandomStream(std::uint64_t seed, RandomPurpose purpose, std::initializer_list<std::uint64_t> key) noexcept
      : state_(mix64(seed + kIncrement)) {
    absorb(static_cast<std::uint64_t>(purpose));
    for (const std::uint64_t part : key) absorb(part);
  }

  constexpr std::uint64_t next() noexcept {
    state_ += kIncrement;
    return mix64(state_);
  }

  /// Uniform in [0, bound), without bias (Lemire: "Fast Random Integer Generation in an Interval", 2019). bound >= 1.
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    Wide product = static_cast<Wide>(next()) * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
      const std::uint64_t threshold = (0 - bound) % bound;
      while (static_cast<std::uint64_t>(product) < threshold) product = static_cast<Wide>(next()) * bound;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  /// Uniform in [0, 1), a multiple of 2^-53.
  constexpr double uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Uniform in [low, high).
  constexpr double uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr std::uint64_t kIncrement = 0x9e3779b97f4a7c15ULL;

  constexpr void absorb(std::uint64_t part) noexcept { state_ = mix64(state_ ^ mix64(part + kIncrement)); }

  std::uint64_t state_;
};

}  // namespace lockstep::data
