#include <gtest/gtest.h>
#include <lockstep/data/loader.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "base/expect_error.h"
#include "data/data_files.h"

namespace lockstep::data {
namespace {

using test::expect_error;

constexpr PictureShape kShape{3, 32, 32};

// What a batch holds, to compare.
struct Copy {
  explicit Copy(const Batch& batch)
      : pixels(batch.pixels.begin(), batch.pixels.end()),
        labels(batch.labels),
        indices(batch.indices),
        step(batch.step) {}
  bool operator==(const Copy&) const = default;

  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> indices;
  std::int64_t step;
};

std::vector<Copy> rest_of(Loader& loader) {
  std::vector<Copy> batches;
  while (const auto batch = loader.next()) batches.emplace_back(*batch);
  return batches;
}

Loader make_loader(std::shared_ptr<const Dataset> dataset, int workers, SamplerOptions options = {.batch_size = 8},
                   int prefetch = 0) {
  options.dataset_size = dataset->size();
  Pipeline pipeline(test::usual_transforms(), dataset->shape());
  return {std::move(dataset), std::move(pipeline), ShardedSampler(options),
          LoaderOptions{.workers = workers, .prefetch = prefetch, .seed = 11}};
}

// Counts accesses, can be slow, and fails at one record.
class TryingDataset final : public Dataset {
 public:
  explicit TryingDataset(int size) : inner_(test::random_dataset(kShape, size, 1)) {}

  std::int64_t size() const override { return inner_->size(); }
  PictureShape shape() const override { return inner_->shape(); }
  int num_classes() const override { return 10; }
  Record operator[](std::int64_t index) const override {
    accesses.fetch_add(1);
    if (index == bad_index.load()) fail(ErrorKind::data, "test", "record {} is bad", index);
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
    return (*inner_)[index];
  }

  mutable std::atomic<std::int64_t> accesses = 0;
  std::atomic<std::int64_t> bad_index = -1;
  std::chrono::microseconds delay{0};

 private:
  std::shared_ptr<const Dataset> inner_;
};

class WithWorkers : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Loader, WithWorkers, testing::Values(0, 1, 3), testing::PrintToStringParamName());

TEST_P(WithWorkers, DeliversTheSamplersBatchesInOrder) {
  const auto dataset = test::random_dataset(kShape, 50, 1);
  Loader loader = make_loader(dataset, GetParam());
  EXPECT_EQ(loader.next(), nullptr) << "before start there is nothing";
  for (const std::int64_t epoch : {0, 1}) {
    loader.start(epoch);
    const EpochOrder order = loader.sampler().epoch(epoch);
    for (std::int64_t step = 0; step < 6; ++step) {
      const auto batch = loader.next();
      ASSERT_NE(batch, nullptr);
      const auto indices = order.batch(step);
      EXPECT_EQ(batch->indices, std::vector<std::int64_t>(indices.begin(), indices.end()));
      EXPECT_EQ(batch->epoch, epoch);
      EXPECT_EQ(batch->step, step);
      EXPECT_EQ(batch->count, 8);
      EXPECT_EQ(batch->global_count, 8);
      EXPECT_EQ(batch->shape, kShape);
      ASSERT_EQ(batch->pixels.size(), 8U * 3072);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch->pixels.data()) % 64, 0U);
      Pipeline::Scratch scratch;
      std::vector<float> expected(3072);
      for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(batch->labels[i], indices[i] % 10);
        loader.pipeline().apply((*dataset)[indices[i]].pixels, {11, epoch, indices[i]}, expected, scratch);
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(),
                               batch->pixels.begin() + static_cast<std::ptrdiff_t>(i * 3072)));
      }
    }
    EXPECT_EQ(loader.next(), nullptr);
    EXPECT_EQ(loader.next(), nullptr);
  }
}

TEST_P(WithWorkers, EnteredAnywhereAnEpochGoesOnAlike) {
  const auto dataset = test::random_dataset(kShape, 50, 1);
  Loader loader = make_loader(dataset, GetParam());
  loader.start(3);
  const auto all = rest_of(loader);
  ASSERT_EQ(all.size(), 6U);
  for (std::size_t step = 0; step <= all.size(); ++step) {
    Loader fresh = make_loader(dataset, GetParam());
    fresh.start(3, static_cast<std::int64_t>(step));
    EXPECT_EQ(rest_of(fresh), std::vector<Copy>(all.begin() + static_cast<std::ptrdiff_t>(step), all.end()));
  }
}

TEST_P(WithWorkers, SamplesLookAlikeInEveryWorld) {
  const auto dataset = test::random_dataset(kShape, 45, 1);
  std::map<std::int64_t, std::vector<float>> alone;
  for (const int shards : {1, 2, 3}) {
    std::set<std::int64_t> seen;
    for (int shard = 0; shard < shards; ++shard) {
      Loader loader =
          make_loader(dataset, GetParam(),
                      {.num_shards = shards, .shard_id = shard, .remainder = Remainder::exact, .batch_size = 4});
      loader.start(1);
      for (const Copy& batch : rest_of(loader)) {
        for (std::size_t i = 0; i < batch.indices.size(); ++i) {
          const auto begin = batch.pixels.begin() + static_cast<std::ptrdiff_t>(i * 3072);
          const auto [sample, is_new] = alone.try_emplace(batch.indices[i], begin, begin + 3072);
          ASSERT_TRUE(std::equal(begin, begin + 3072, sample->second.begin())) << batch.indices[i];
          EXPECT_TRUE(seen.insert(batch.indices[i]).second) << batch.indices[i] << " came twice";
          EXPECT_EQ(is_new, shards == 1);
        }
      }
    }
    EXPECT_EQ(seen.size(), 45U);
  }
}

TEST_P(WithWorkers, EmptyLastBatchIsDelivered) {
  const auto dataset = test::random_dataset(kShape, 9, 1);
  Loader loader = make_loader(dataset, GetParam(),
                              {.num_shards = 4, .shard_id = 3, .remainder = Remainder::exact, .batch_size = 2});
  loader.start(0);
  EXPECT_EQ(loader.next()->count, 2);
  const auto last = loader.next();
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->count, 0);
  EXPECT_EQ(last->global_count, 1);
  EXPECT_TRUE(last->pixels.empty());
  EXPECT_EQ(loader.next(), nullptr);
}

TEST_P(WithWorkers, ErrorComesAtItsTurnAndStays) {
  const auto dataset = std::make_shared<TryingDataset>(64);
  Loader loader = make_loader(dataset, GetParam());
  dataset->bad_index = loader.sampler().epoch(0).batch(3)[2];
  loader.start(0);
  for (int step = 0; step < 3; ++step) EXPECT_EQ(loader.next()->step, step);
  for (int again = 0; again < 2; ++again) {
    expect_error(ErrorKind::data, {"is bad", std::to_string(dataset->bad_index)}, [&] { loader.next(); });
  }
  dataset->bad_index = -1;
  loader.start(0, 3);
  EXPECT_EQ(rest_of(loader).size(), 5U);
}

TEST_P(WithWorkers, DestructionInTheMiddle) {
  const auto dataset = std::make_shared<TryingDataset>(64);
  dataset->delay = std::chrono::microseconds(50);
  for (int taken = 0; taken < 8; ++taken) {
    Loader loader = make_loader(dataset, GetParam());
    loader.start(taken);
    for (int i = 0; i < taken; ++i) EXPECT_NE(loader.next(), nullptr);
  }
  Loader never_started = make_loader(dataset, GetParam());
}

TEST_P(WithWorkers, StartInTheMiddleDropsWhatWasGoingOn) {
  const auto dataset = std::make_shared<TryingDataset>(64);
  Loader loader = make_loader(dataset, GetParam());
  loader.start(5);
  const auto expected = rest_of(loader);
  dataset->delay = std::chrono::microseconds(20);
  for (int taken = 0; taken < 8; ++taken) {
    loader.start(taken);
    for (int i = 0; i < taken; ++i) EXPECT_EQ(loader.next()->epoch, taken);
    loader.start(5);
    EXPECT_EQ(rest_of(loader), expected);
  }
}

TEST_P(WithWorkers, BatchesOutliveTheLoaderUnchanged) {
  const auto dataset = test::random_dataset(kShape, 64, 1);
  std::vector<std::shared_ptr<Batch>> kept;
  std::vector<Copy> copies;
  {
    Loader loader = make_loader(dataset, GetParam());
    loader.start(0);
    while (auto batch = loader.next()) {
      copies.emplace_back(*batch);
      kept.push_back(std::move(batch));
    }
  }
  ASSERT_EQ(kept.size(), 8U);
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(Copy(*kept[i]), copies[i]);
}

TEST_P(WithWorkers, MemoryIsUsedAgain) {
  const auto dataset = test::random_dataset(kShape, 64, 1);
  Loader loader = make_loader(dataset, GetParam(), {.batch_size = 1}, 2);
  std::set<const float*> places;
  std::shared_ptr<Batch> held;
  for (int epoch = 0; epoch < 3; ++epoch) {
    loader.start(epoch);
    while (auto batch = loader.next()) {
      places.insert(batch->pixels.data());
      held = std::move(batch);  // the consumer holds one while it asks for the next
    }
  }
  // Two ahead, one in each worker's hands, two with the consumer.
  EXPECT_LE(places.size(), static_cast<std::size_t>(2 + GetParam() + 2));
}

TEST(Loader, WorkersStayWithinThePrefetch) {
  const auto dataset = std::make_shared<TryingDataset>(200);
  Loader loader = make_loader(dataset, 3, {.batch_size = 2}, 4);
  loader.start(0);
  for (std::int64_t delivered = 0; delivered < 100; ++delivered) {
    EXPECT_LE(dataset->accesses.load(), (delivered + 4) * 2);
    ASSERT_NE(loader.next(), nullptr);
  }
  EXPECT_EQ(dataset->accesses.load(), 200);
}

void wait_for_accesses(const TryingDataset& dataset, std::int64_t count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (dataset.accesses.load() < count && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  ASSERT_EQ(dataset.accesses.load(), count);
}

TEST(Loader, WorkersRunAheadOfTheConsumer) {
  const auto dataset = std::make_shared<TryingDataset>(200);
  Loader loader = make_loader(dataset, 2, {.batch_size = 2}, 4);
  loader.start(0);
  wait_for_accesses(*dataset, 8);  // nobody asked for a batch, yet four are made
}

TEST(Loader, StartDropsBatchesThatWereReady) {
  const auto dataset = std::make_shared<TryingDataset>(200);
  Loader loader = make_loader(dataset, 1, {.batch_size = 2}, 4);
  loader.start(0);
  wait_for_accesses(*dataset, 8);  // one worker: the first three batches are complete
  loader.start(1);
  for (int step = 0; step < 4; ++step) EXPECT_EQ(loader.next()->epoch, 1);
}

TEST(Loader, RefusesPartsThatDoNotFit) {
  const auto dataset = test::random_dataset(kShape, 10, 1);
  const Pipeline pipeline(test::usual_transforms(), kShape);
  const ShardedSampler sampler({.dataset_size = 10});
  const auto refuse = [&](const Pipeline& p, const ShardedSampler& s, const LoaderOptions& options,
                          std::initializer_list<std::string_view> words) {
    expect_error(ErrorKind::invalid_argument, words, [&] { Loader(dataset, p, s, options); });
  };
  refuse(pipeline, sampler, {.workers = -1}, {"-1 workers"});
  refuse(pipeline, sampler, {.workers = 100000}, {"100000 workers", "1024"});
  refuse(pipeline, sampler, {.prefetch = -2}, {"-2 batches ahead"});
  refuse(pipeline, ShardedSampler({.dataset_size = 11}), {}, {"10 records", "sampler counts 11"});
  refuse(Pipeline(test::usual_transforms(), {3, 28, 28}), sampler, {}, {"3x32x32", "3x28x28"});

  Loader loader(dataset, pipeline, sampler, {});
  expect_error(ErrorKind::invalid_argument, {"step 11", "10 steps"}, [&] { loader.start(0, 11); });
  expect_error(ErrorKind::invalid_argument, {"step -1"}, [&] { loader.start(0, -1); });
  expect_error(ErrorKind::invalid_argument, {"epoch is -1"}, [&] { loader.start(-1); });
}

}  // namespace
}  // namespace lockstep::data
