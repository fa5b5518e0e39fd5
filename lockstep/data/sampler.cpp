#include <lockstep/base/error.h>
#include <lockstep/data/random.h>
#include <lockstep/data/sampler.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace lockstep::data {
namespace {

constexpr std::int64_t kLargestBatch = std::numeric_limits<std::int32_t>::max();

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

std::int64_t global_batch(const SamplerOptions& options) { return options.num_shards * options.batch_size; }

// Records a rank sees with Remainder::pad.
std::int64_t padded_share(const SamplerOptions& options) { return divide_up(options.dataset_size, options.num_shards); }

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
  if (options.remainder == Remainder::drop && options.dataset_size < global_batch(options)) {
    fail(ErrorKind::invalid_argument, "sampler",
         "the {} records of the data set do not fill one batch of {} on each of {} ranks, and incomplete batches are "
         "dropped; lower the batch size, use fewer ranks, or keep incomplete batches",
         options.dataset_size, options.batch_size, options.num_shards);
  }
}

std::int64_t count_steps(const SamplerOptions& options) {
  switch (options.remainder) {
    case Remainder::drop: return options.dataset_size / global_batch(options);
    case Remainder::pad: return divide_up(padded_share(options), options.batch_size);
    case Remainder::exact: return divide_up(options.dataset_size, global_batch(options));
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
  steps_ = count_steps(options);
}

std::int64_t ShardedSampler::places_of_shard() const {
  switch (options_.remainder) {
    case Remainder::drop: return steps_ * options_.batch_size;
    case Remainder::pad: return padded_share(options_);
    case Remainder::exact:
      return divide_up(std::max<std::int64_t>(options_.dataset_size - options_.shard_id, 0), options_.num_shards);
  }
  return 0;
}

std::int64_t ShardedSampler::global_batch_size(std::int64_t step) const {
  if (step < 0 || step >= steps_) {
    fail(ErrorKind::invalid_argument, "sampler", "there is no step {} in an epoch of {} steps", step, steps_);
  }
  switch (options_.remainder) {
    case Remainder::drop: break;
    case Remainder::pad:
      return options_.num_shards * std::min(options_.batch_size, padded_share(options_) - step * options_.batch_size);
    case Remainder::exact:
      return std::min(global_batch(options_), options_.dataset_size - step * global_batch(options_));
  }
  return global_batch(options_);
}

EpochOrder ShardedSampler::epoch(std::int64_t epoch) const {
  if (epoch < 0) fail(ErrorKind::invalid_argument, "sampler", "epoch is {}; epochs count from 0", epoch);
  const std::vector<std::int64_t> order = permutation(options_, epoch);
  std::vector<std::int64_t> own(static_cast<std::size_t>(places_of_shard()));
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::int64_t place = static_cast<std::int64_t>(i) * options_.num_shards + options_.shard_id;
    own[i] = order[static_cast<std::size_t>(place % options_.dataset_size)];
  }
  return {std::move(own), options_.batch_size, steps_};
}

}  // namespace lockstep::data
