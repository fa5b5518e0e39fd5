// The distributed sampler: a seeded permutation by epoch, dealt round-robin to ranks; three rules for the remainder.
// Also the limits of a loader's threads.
#include <lockstep/base/error.h>
#include <lockstep/data/sampler.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace lockstep::data {
namespace {

constexpr int kMostWorkers = 1024;
constexpr int kMostPrefetch = 65536;
constexpr std::int64_t kLargestBatch = std::numeric_limits<std::int32_t>::max();

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

std::int64_t global_batch(const SamplerOptions& options) {
  return options.global_batch_size > 0 ? options.global_batch_size : options.num_shards * options.batch_size;
}

// The number of positions of this rank, when `places` positions are assigned to ranks round-robin.
std::int64_t share(const SamplerOptions& options, std::int64_t places) {
  return divide_up(std::max<std::int64_t>(places - options.shard_id, 0), options.num_shards);
}

void check(const SamplerOptions& options) {
  const auto refuse = [](std::string_view name, std::int64_t value, std::string_view rule) {
    fail(ErrorKind::invalid_argument, "sampler", "{} is {}; it must be {}", name, value, rule);
  };
  if (options.dataset_size < 1) refuse("dataset_size", options.dataset_size, "at least 1");
  if (options.num_shards < 1) refuse("num_shards", options.num_shards, "at least 1");
  if (options.shard_id < 0 || options.shard_id >= options.num_shards) {
    refuse("shard_id", options.shard_id, fmt::format("0 to {} (num_shards - 1)", options.num_shards - 1));
  }
  if (options.batch_size < 1 || options.batch_size > kLargestBatch) {
    refuse("batch_size", options.batch_size, fmt::format("1 to {}", kLargestBatch));
  }
  if (options.global_batch_size < 0 || options.global_batch_size > kLargestBatch) {
    refuse("global_batch_size", options.global_batch_size, fmt::format("0 to {}", kLargestBatch));
  }
  if (options.global_batch_size > options.dataset_size && options.remainder != Remainder::exact) {
    fail(ErrorKind::invalid_argument, "sampler",
         "the {} records of the data set do not fill one batch of {} on all ranks together; lower the global batch "
         "size, or keep incomplete batches",
         options.dataset_size, options.global_batch_size);
  }
  if (options.remainder == Remainder::drop && options.dataset_size < global_batch(options)) {
    fail(ErrorKind::invalid_argument, "sampler",
         "the {} records of the data set do not fill one batch of {} on each of {} ranks, and incomplete batches are "
         "dropped; lower the batch size, use fewer ranks, or keep incomplete batches",
         options.dataset_size, options.batch_size, options.num_shards);
  }
}

// The number of positions in all steps of an epoch, on all ranks.
std::int64_t count_places(const SamplerOptions& options) {
  const std::int64_t size = options.dataset_size;
  const std::int64_t batch = global_batch(options);
  switch (options.remainder) {
    case Remainder::drop: return size / batch * batch;
    case Remainder::pad: {
      const std::int64_t multiple = options.global_batch_size > 0 ? batch : options.num_shards;
      return divide_up(size, multiple) * multiple;
    }
    case Remainder::exact: return size;
  }
  return 0;
}

std::vector<std::int64_t> permutation(const SamplerOptions& options, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(options.dataset_size));
  std::iota(order.begin(), order.end(), 0);
  if (!options.shuffle) return order;
  RandomStream random(options.seed, RandomPurpose::order, {static_cast<std::uint64_t>(epoch)});
  for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  return order;
}

}  // namespace

EpochOrder::EpochOrder(std::vector<std::int64_t> indices, std::int64_t batch_size, std::int64_t steps)
    : indices_(std::move(indices)), batch_size_(batch_size), steps_(steps) {}

std::span<const std::int64_t> EpochOrder::batch(std::int64_t step) const {
  if (step < 0 || step >= steps_) {
    fail(ErrorKind::invalid_argument, "sampler", "there is no step {} in an epoch of {} steps", step, steps_);
  }
  const auto size = static_cast<std::int64_t>(indices_.size());
  const std::int64_t first = std::min(step * batch_size_, size);
  const std::int64_t last = std::min(first + batch_size_, size);
  return std::span(indices_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
}

ShardedSampler::ShardedSampler(const SamplerOptions& options) : options_(options) {
  check(options);
  global_batch_ = global_batch(options);
  places_ = count_places(options);
  steps_ = divide_up(places_, global_batch_);
}

std::int64_t ShardedSampler::global_batch_size(std::int64_t step) const {
  if (step < 0 || step >= steps_) {
    fail(ErrorKind::invalid_argument, "sampler", "there is no step {} in an epoch of {} steps", step, steps_);
  }
  return std::min(global_batch_, places_ - step * global_batch_);
}

EpochOrder ShardedSampler::epoch(std::int64_t epoch) const {
  if (epoch < 0) fail(ErrorKind::invalid_argument, "sampler", "epoch is {}; epochs count from 0", epoch);
  const std::vector<std::int64_t> order = permutation(options_, epoch);
  const std::int64_t batch_size = share(options_, global_batch_);
  const std::int64_t whole_steps = places_ / global_batch_;
  std::vector<std::int64_t> own;
  own.reserve(static_cast<std::size_t>(whole_steps * batch_size + share(options_, places_ % global_batch_)));
  for (std::int64_t step = 0; step < steps_; ++step) {
    const std::int64_t end = std::min((step + 1) * global_batch_, places_);
    for (std::int64_t place = step * global_batch_ + options_.shard_id; place < end; place += options_.num_shards) {
      own.push_back(order[static_cast<std::size_t>(place % options_.dataset_size)]);
    }
  }
  return {std::move(own), batch_size, steps_};
}

void check_loader_options(const LoaderOptions& options) {
  if (options.workers >= 0 && options.workers <= kMostWorkers && options.prefetch >= 0 &&
      options.prefetch <= kMostPrefetch) {
    return;
  }
  fail(ErrorKind::invalid_argument, "loader", "{} workers and {} batches ahead: there can be 0 to {} and 0 to {}",
       options.workers, options.prefetch, kMostWorkers, kMostPrefetch);
}

int batches_ahead(const LoaderOptions& options) {
  if (options.workers == 0) return 1;
  return options.prefetch > 0 ? options.prefetch : 2 * options.workers;
}

}  // namespace lockstep::data
