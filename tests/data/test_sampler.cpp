#include <gtest/gtest.h>
#include <lockstep/data/sampler.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/expect_error.h"

namespace lockstep::data {
namespace {

using test::expect_error;
using Indices = std::vector<std::int64_t>;

Indices sorted(Indices values) {
  std::sort(values.begin(), values.end());
  return values;
}

Indices whole_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  const EpochOrder order =
      ShardedSampler({.dataset_size = size, .seed = seed, .remainder = Remainder::exact}).epoch(epoch);
  return {order.indices().begin(), order.indices().end()};
}

// The records of one step, rank after rank.
Indices records_of_step(SamplerOptions options, std::int64_t epoch, std::int64_t step) {
  Indices records;
  for (options.shard_id = 0; options.shard_id < options.num_shards; ++options.shard_id) {
    const EpochOrder order = ShardedSampler(options).epoch(epoch);
    const auto batch = order.batch(step);
    records.insert(records.end(), batch.begin(), batch.end());
  }
  return records;
}

// Calls `body` for many sizes, world sizes and batch sizes, among them worlds larger than the data set.
template <typename Body>
void for_many_options(Remainder remainder, Body body) {
  for (const std::int64_t size : {1, 2, 7, 10, 64, 101}) {
    for (const int shards : {1, 2, 3, 4, 7, 16}) {
      for (const std::int64_t batch : {1, 3, 8, 1000}) {
        for (const bool shuffle : {true, false}) {
          if (remainder == Remainder::drop && size < shards * batch) continue;
          SCOPED_TRACE(testing::Message() << size << " records, " << shards << " shards, batches of " << batch);
          body(SamplerOptions{.dataset_size = size,
                              .num_shards = shards,
                              .shuffle = shuffle,
                              .seed = 5,
                              .remainder = remainder,
                              .batch_size = batch});
        }
      }
    }
  }
}

TEST(Sampler, OrderIsPinned) {
  // Computed by another implementation (in Python); a change here changes every run's order.
  EXPECT_EQ(whole_order(10, 1, 0), (Indices{1, 4, 5, 0, 7, 6, 9, 8, 2, 3}));
  EXPECT_EQ(whole_order(10, 1, 1), (Indices{7, 2, 6, 8, 0, 1, 5, 9, 3, 4}));
  EXPECT_EQ(whole_order(10, 2, 0), (Indices{4, 8, 7, 6, 9, 3, 5, 0, 1, 2}));
}

TEST(Sampler, AllPermutationsAreEquallyLikely) {
  std::map<Indices, int> seen;
  for (int epoch = 0; epoch < 2400; ++epoch) ++seen[whole_order(4, 9, epoch)];
  ASSERT_EQ(seen.size(), 24U);
  double chi_square = 0;
  for (const auto& [order, count] : seen) chi_square += (count - 100.0) * (count - 100.0) / 100.0;
  EXPECT_LT(chi_square, 49.7) << "23 degrees of freedom; 0.1% of good generators exceed this";
}

TEST(Sampler, WithoutShuffleEveryEpochIsInOrder) {
  SamplerOptions options{.dataset_size = 7, .num_shards = 2, .shard_id = 1, .shuffle = false, .batch_size = 2};
  const ShardedSampler sampler(options);
  for (const std::int64_t epoch : {0, 3}) {
    const EpochOrder order = sampler.epoch(epoch);
    EXPECT_EQ(Indices(order.indices().begin(), order.indices().end()), (Indices{1, 3}));
  }
}

TEST(Sampler, ExactShowsEveryRecordOnce) {
  for_many_options(Remainder::exact, [](SamplerOptions options) {
    const ShardedSampler sampler(options);
    Indices all;
    for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      const Indices records = records_of_step(options, 2, step);
      EXPECT_EQ(static_cast<std::int64_t>(records.size()), sampler.global_batch_size(step));
      all.insert(all.end(), records.begin(), records.end());
    }
    Indices expected(static_cast<std::size_t>(options.dataset_size));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(sorted(all), expected);
  });
}

TEST(Sampler, DropGivesFullBatchesWithoutRepeats) {
  for_many_options(Remainder::drop, [](SamplerOptions options) {
    const ShardedSampler sampler(options);
    const std::int64_t global = options.num_shards * options.batch_size;
    EXPECT_EQ(sampler.steps_per_epoch(), options.dataset_size / global);
    Indices all;
    for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      EXPECT_EQ(sampler.global_batch_size(step), global);
      const Indices records = records_of_step(options, 0, step);
      EXPECT_EQ(static_cast<std::int64_t>(records.size()), global);
      all.insert(all.end(), records.begin(), records.end());
    }
    EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());
  });
}

TEST(Sampler, PadGivesEveryRankEquallyMany) {
  for_many_options(Remainder::pad, [](SamplerOptions options) {
    const ShardedSampler sampler(options);
    const std::int64_t share = (options.dataset_size + options.num_shards - 1) / options.num_shards;
    std::map<std::int64_t, std::int64_t> shown;
    for (options.shard_id = 0; options.shard_id < options.num_shards; ++options.shard_id) {
      const EpochOrder order = ShardedSampler(options).epoch(1);
      EXPECT_EQ(order.steps(), sampler.steps_per_epoch());
      std::int64_t count = 0;
      for (std::int64_t step = 0; step < order.steps(); ++step) {
        const auto batch = order.batch(step);
        EXPECT_EQ(static_cast<std::int64_t>(batch.size()) * options.num_shards, sampler.global_batch_size(step));
        EXPECT_FALSE(batch.empty());
        count += static_cast<std::int64_t>(batch.size());
        for (const std::int64_t index : batch) ++shown[index];
      }
      EXPECT_EQ(count, share);
    }
    // Everybody once, and those at the start of the order as often again as it takes.
    const Indices order = options.shuffle ? whole_order(options.dataset_size, options.seed, 1) : Indices{};
    for (std::int64_t place = 0; place < options.dataset_size; ++place) {
      const std::int64_t index = options.shuffle ? order[static_cast<std::size_t>(place)] : place;
      const std::int64_t padded = share * options.num_shards;
      EXPECT_EQ(shown[index], padded / options.dataset_size + (place < padded % options.dataset_size ? 1 : 0));
    }
  });
}

TEST(Sampler, RecordsOfAStepDoNotDependOnTheWorldSize) {
  for (const Remainder remainder : {Remainder::exact, Remainder::drop}) {
    SamplerOptions options{.dataset_size = 107, .seed = 3, .remainder = remainder};
    std::vector<Indices> alone;
    for (const int shards : {1, 2, 4, 8}) {
      options.num_shards = shards;
      options.batch_size = 8 / shards;
      const ShardedSampler sampler(options);
      for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
        const Indices records = sorted(records_of_step(options, 4, step));
        if (shards == 1) alone.push_back(records);
        EXPECT_EQ(records, alone[static_cast<std::size_t>(step)]) << shards << " shards, step " << step;
      }
      EXPECT_EQ(sampler.steps_per_epoch(), static_cast<std::int64_t>(alone.size()));
    }
  }
}

// Also where ranks do not divide the batch, or outnumber it.
TEST(Sampler, AGlobalBatchIsTheSameOnAnyNumberOfRanks) {
  for (const Remainder remainder : {Remainder::exact, Remainder::drop, Remainder::pad}) {
    SamplerOptions options{.dataset_size = 107, .seed = 3, .remainder = remainder, .global_batch_size = 10};
    std::vector<Indices> alone;
    for (const int shards : {1, 2, 3, 4, 7, 10, 13}) {
      options.num_shards = shards;
      const ShardedSampler sampler(options);
      EXPECT_EQ(sampler.steps_per_epoch(), remainder == Remainder::drop ? 10 : 11);
      for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
        SCOPED_TRACE(testing::Message() << shards << " shards, step " << step);
        const Indices records = sorted(records_of_step(options, 4, step));
        if (shards == 1) alone.push_back(records);
        EXPECT_EQ(records, alone[static_cast<std::size_t>(step)]);
        const auto in_step = static_cast<std::int64_t>(records.size());
        EXPECT_EQ(sampler.global_batch_size(step), in_step);
        EXPECT_EQ(in_step, step == 10 && remainder == Remainder::exact ? 7 : 10);
        for (options.shard_id = 0; options.shard_id < shards; ++options.shard_id) {
          const auto own = ShardedSampler(options).epoch(4).batch(step).size();
          EXPECT_EQ(static_cast<std::int64_t>(own), in_step / shards + (options.shard_id < in_step % shards ? 1 : 0));
        }
        options.shard_id = 0;
      }
    }
  }
}

TEST(Sampler, LastBatchOfSomeRanksMayBeEmpty) {
  SamplerOptions options{
      .dataset_size = 9, .num_shards = 4, .shuffle = false, .remainder = Remainder::exact, .batch_size = 2};
  std::vector<std::size_t> last;
  for (options.shard_id = 0; options.shard_id < 4; ++options.shard_id) {
    const ShardedSampler sampler(options);
    ASSERT_EQ(sampler.steps_per_epoch(), 2);
    EXPECT_EQ(sampler.global_batch_size(1), 1);
    last.push_back(sampler.epoch(0).batch(1).size());
  }
  EXPECT_EQ(last, (std::vector<std::size_t>{1, 0, 0, 0}));
}

TEST(Sampler, RefusesOptionsOutOfRange) {
  const auto refuse = [](const SamplerOptions& options, std::initializer_list<std::string_view> words) {
    expect_error(ErrorKind::invalid_argument, words, [&] { ShardedSampler{options}; });
  };
  refuse({.dataset_size = 0}, {"dataset_size is 0"});
  refuse({.dataset_size = 9, .num_shards = 0}, {"num_shards is 0"});
  refuse({.dataset_size = 9, .num_shards = 2, .shard_id = 2}, {"shard_id is 2", "0 to 1"});
  refuse({.dataset_size = 9, .num_shards = 2, .shard_id = -1}, {"shard_id is -1"});
  refuse({.dataset_size = 9, .batch_size = 0}, {"batch_size is 0"});
  refuse({.dataset_size = 9, .num_shards = 2, .batch_size = 5},
         {"9 records", "batch of 5", "2 ranks", "lower the batch size"});
  refuse({.dataset_size = 9, .global_batch_size = -1}, {"global_batch_size is -1"});
  for (const auto remainder : {Remainder::drop, Remainder::pad}) {
    refuse({.dataset_size = 9, .num_shards = 2, .remainder = remainder, .global_batch_size = 10},
           {"9 records", "batch of 10 on all ranks", "lower the global batch size"});
  }
}

TEST(Sampler, RefusesStepsAndEpochsThatAreNot) {
  const ShardedSampler sampler({.dataset_size = 9, .batch_size = 4});
  const EpochOrder order = sampler.epoch(0);
  expect_error(ErrorKind::invalid_argument, {"step 2", "2 steps"}, [&] { order.batch(2); });
  expect_error(ErrorKind::invalid_argument, {"step -1"}, [&] { order.batch(-1); });
  expect_error(ErrorKind::invalid_argument, {"step 2"}, [&] { static_cast<void>(sampler.global_batch_size(2)); });
  expect_error(ErrorKind::invalid_argument, {"epoch is -1"}, [&] { static_cast<void>(sampler.epoch(-1)); });
}

}  // namespace
}  // namespace lockstep::data
