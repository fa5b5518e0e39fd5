// The path of small pictures from a data set in memory to batches: the sampler, the transforms and the loader.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/data/dataset.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace lockstep::data {

// Vectors with memory aligned to 64 bytes, the size of a cache line and of the widest vector register.

/// A stateless standard allocator. Throws std::bad_alloc when memory is exhausted. Thread-safe.
template <typename T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::size_t kAlignment = 64;

  AlignedAllocator() = default;
  template <typename U>
  explicit AlignedAllocator(const AlignedAllocator<U>&) noexcept {}

  T* allocate(std::size_t count) { return reinterpret_cast<T*>(std::allocator<Line>().allocate(lines(count))); }
  void deallocate(T* memory, std::size_t count) noexcept {
    std::allocator<Line>().deallocate(reinterpret_cast<Line*>(memory), lines(count));
  }

  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) noexcept { return true; }

 private:
  struct alignas(kAlignment) Line {
    std::array<std::byte, kAlignment> bytes;
  };

  static std::size_t lines(std::size_t count) { return (count * sizeof(T) + kAlignment - 1) / kAlignment; }
};

template <typename T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

// The batch of a loader: plain memory that a tensor can share.

/// The pictures of one step on one rank. A plain value; not thread-safe.
struct Batch {
  AlignedVector<float> pixels;        ///< float32, [count, channels, height, width], contiguous
  std::vector<std::int64_t> labels;   ///< int64, [count], each from 0 to the number of classes - 1
  std::vector<std::int64_t> indices;  ///< [count], the records' indices in the data set
  std::int64_t count = 0;             ///< may be 0 (Remainder::exact)
  PictureShape shape;                 ///< shape of one picture
  std::int64_t epoch = 0;             ///< counted from 0
  std::int64_t step = 0;              ///< step in the epoch, counted from 0
  std::int64_t global_count = 0;      ///< records of this step over all ranks
};

// The distributed sampler: which records each rank reads, and in which order. A pure function of the options, the epoch
// and the step.

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

// Transforms as written in a configuration: names and arguments, with their positions in the file.

/// The value of an argument: a number (integers, too; sizes are in pixels), a list of numbers, or a word.
using TransformValue = std::variant<double, std::vector<double>, std::string>;

struct TransformArgument {
  std::string name;
  TransformValue value;
  FilePosition position;
};

/// E.g. `random_crop: {size: 32, padding: 4}`. All names and arguments are in docs/configuration.md#transforms;
/// Pipeline checks them. Positions are for its error messages, and may be empty.
struct TransformSpec {
  std::string name;
  std::vector<TransformArgument> arguments;  ///< in the order of the file
  FilePosition position;
};

// The transform pipeline from a record's bytes to the floats of a model's input.

enum class PipelineMode {
  fastest,       ///< one fused pass where the transforms allow it
  step_by_step,  ///< always one transform after the other: the reference implementation, whose results are bit-equal
};

/// The key of one sample. Its random choices depend on the key only.
struct SampleKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;  ///< counted from 0
  std::int64_t index = 0;  ///< index of the record in its data set
};

struct FusedScratch;

/// Buffers that a pipeline reuses from picture to picture: one object for each thread that applies it.
class PipelineScratch {
 public:
  PipelineScratch();
  ~PipelineScratch();
  PipelineScratch(PipelineScratch&&) noexcept;
  PipelineScratch& operator=(PipelineScratch&&) noexcept;

  FusedScratch& buffers() { return *buffers_; }  ///< internal

 private:
  std::unique_ptr<FusedScratch> buffers_;
};

/// A sequence of transforms. An immutable value, cheap to copy. Thread-safe with one scratch per thread.
class Pipeline {
 public:
  using Scratch = PipelineScratch;

  /// The transforms, applied in this order to pictures of `input`: names and arguments as under data.train_transforms
  /// (docs/configuration.md). Error(config) for unknown names and arguments, values out of range, transforms that
  /// cannot follow the preceding ones, and when the result is not CHW float32.
  Pipeline(std::span<const TransformSpec> specs, const PictureShape& input, PipelineMode mode = PipelineMode::fastest);

  /// Transforms one picture: `pixels`, bytes (CHW) of shape input(), to `out`, float32 (CHW) of shape output(). `key`
  /// gives the random choices. Error(invalid_argument) when a span has another size.
  void apply(std::span<const std::uint8_t> pixels, const SampleKey& key, std::span<float> out, Scratch& scratch) const;

  const PictureShape& input() const;
  const PictureShape& output() const;
  bool is_fused() const;

  /// One line: "3x32x32 -> random_crop 32x32 padding 4,4,4,4 -> ... -> 3x32x32 (fused)".
  std::string describe() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

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
  /// a batch is thrown here instead of that batch, and again by each further call until `start`. The batch's memory is
  /// reused once its last owner releases it.
  std::shared_ptr<Batch> next();

  const ShardedSampler& sampler() const;
  const Pipeline& pipeline() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::data
