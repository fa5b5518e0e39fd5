// Batches of small pictures by a compiled list: made ahead, in order, in memory that is used again.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "base/expect_error.h"
#include "data/data_files.h"
#include "samples/small_pictures.h"

namespace lockstep::test {
namespace {

using data::EpochOrder;
using data::Pictures;
using data::PictureShape;
using data::Remainder;
using data::SamplerOptions;
using data::ShardedSampler;
using samples::Batch;

constexpr PictureShape kShape{3, 32, 32};

const float* pixels_of(const Batch& batch) { return batch["pictures"].data_ptr<float>(); }

// What a batch holds, to compare.
struct Copy {
  explicit Copy(const Batch& batch)
      : pixels(pixels_of(batch), pixels_of(batch) + batch["pictures"].numel()),
        labels(batch["labels"].data_ptr<std::int64_t>(), batch["labels"].data_ptr<std::int64_t>() + batch.count),
        indices(batch.indices) {}
  bool operator==(const Copy&) const = default;

  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> indices;
};

// The batches of one rank, and the sampler behind them.
class Loader {
 public:
  Loader(std::shared_ptr<const Pictures> pictures, int workers, SamplerOptions options = {.batch_size = 8},
         int prefetch = 0)
      : dataset_(samples::transformed(samples::from_pictures(pictures), kUsualList)),
        sampler_([&] {
          options.dataset_size = pictures->size();
          return options;
        }()),
        batches_(dataset_->batches(dataset_, sampler_, {.workers = workers, .prefetch = prefetch, .seed = 11})) {}

  void start(std::int64_t epoch, std::int64_t step = 0) { batches_->start(epoch, step); }
  std::optional<Batch> next() { return batches_->next(); }
  const ShardedSampler& sampler() const { return sampler_; }
  std::vector<std::int64_t> indices(std::int64_t epoch, std::int64_t step) const {
    const EpochOrder order = sampler_.epoch(epoch);
    const auto batch = order.batch(step);
    return {batch.begin(), batch.end()};
  }

 private:
  std::shared_ptr<const samples::Dataset> dataset_;
  ShardedSampler sampler_;
  std::unique_ptr<samples::Batches> batches_;
};

std::vector<Copy> rest_of(Loader& loader) {
  std::vector<Copy> batches;
  while (const auto batch = loader.next()) batches.emplace_back(*batch);
  return batches;
}

// Counts accesses, can be slow, and fails at one record.
class TryingPictures final : public Pictures {
 public:
  explicit TryingPictures(int size) : inner_(random_dataset(kShape, size, 1)) {}

  std::int64_t size() const override { return inner_->size(); }
  PictureShape shape() const override { return inner_->shape(); }
  int num_classes() const override { return 10; }
  data::Record operator[](std::int64_t index) const override {
    accesses.fetch_add(1);
    if (index == bad_index.load()) fail(ErrorKind::data, "test", "record {} is bad", index);
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
    return (*inner_)[index];
  }

  mutable std::atomic<std::int64_t> accesses = 0;
  std::atomic<std::int64_t> bad_index = -1;
  std::chrono::microseconds delay{0};

 private:
  std::shared_ptr<const Pictures> inner_;
};

class WithWorkers : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(PictureBatches, WithWorkers, testing::Values(0, 1, 3), testing::PrintToStringParamName());

TEST_P(WithWorkers, DeliversTheSamplersBatchesInOrder) {
  const auto dataset = random_dataset(kShape, 50, 1);
  Loader loader(dataset, GetParam());
  const auto list = small_list(kUsualList, kShape);
  EXPECT_FALSE(loader.next()) << "before start there is nothing";
  for (const std::int64_t epoch : {0, 1}) {
    loader.start(epoch);
    const EpochOrder order = loader.sampler().epoch(epoch);
    for (std::int64_t step = 0; step < 6; ++step) {
      const auto batch = loader.next();
      ASSERT_TRUE(batch);
      const auto indices = order.batch(step);
      EXPECT_EQ(batch->indices, std::vector<std::int64_t>(indices.begin(), indices.end()));
      EXPECT_EQ(batch->count, 8);
      ASSERT_EQ((*batch)["pictures"].sizes(), (std::vector<std::int64_t>{8, 3, 32, 32}));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pixels_of(*batch)) % 64, 0U);
      for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_EQ((*batch)["labels"][static_cast<int>(i)].item<std::int64_t>(), indices[i] % 10);
        const auto expected = apply(list, kShape, (*dataset)[indices[i]].pixels, {11, epoch, indices[i]});
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), pixels_of(*batch) + i * 3072));
      }
    }
    EXPECT_FALSE(loader.next());
    EXPECT_FALSE(loader.next());
  }
}

TEST_P(WithWorkers, EnteredAnywhereAnEpochGoesOnAlike) {
  const auto dataset = random_dataset(kShape, 50, 1);
  Loader loader(dataset, GetParam());
  loader.start(3);
  const auto all = rest_of(loader);
  ASSERT_EQ(all.size(), 6U);
  for (std::size_t step = 0; step <= all.size(); ++step) {
    Loader fresh(dataset, GetParam());
    fresh.start(3, static_cast<std::int64_t>(step));
    EXPECT_EQ(rest_of(fresh), std::vector<Copy>(all.begin() + static_cast<std::ptrdiff_t>(step), all.end()));
  }
}

TEST_P(WithWorkers, SamplesLookAlikeInEveryWorld) {
  const auto dataset = random_dataset(kShape, 45, 1);
  std::map<std::int64_t, std::vector<float>> alone;
  for (const int shards : {1, 2, 3}) {
    std::set<std::int64_t> seen;
    for (int shard = 0; shard < shards; ++shard) {
      Loader loader(dataset, GetParam(),
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
  const auto dataset = random_dataset(kShape, 9, 1);
  Loader loader(dataset, GetParam(), {.num_shards = 4, .shard_id = 3, .remainder = Remainder::exact, .batch_size = 2});
  loader.start(0);
  EXPECT_EQ(loader.next()->count, 2);
  const auto last = loader.next();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->count, 0);
  EXPECT_EQ(loader.sampler().global_batch_size(1), 1);
  EXPECT_EQ((*last)["pictures"].sizes(), (std::vector<std::int64_t>{0, 3, 32, 32}));
  EXPECT_FALSE(loader.next());
}

TEST_P(WithWorkers, ErrorComesAtItsTurnAndStays) {
  const auto dataset = std::make_shared<TryingPictures>(64);
  Loader loader(dataset, GetParam());
  dataset->bad_index = loader.sampler().epoch(0).batch(3)[2];
  loader.start(0);
  for (int step = 0; step < 3; ++step) EXPECT_EQ(loader.next()->indices, loader.indices(0, step));
  for (int again = 0; again < 2; ++again) {
    expect_error(ErrorKind::data, {"is bad", std::to_string(dataset->bad_index)}, [&] { loader.next(); });
  }
  dataset->bad_index = -1;
  loader.start(0, 3);
  EXPECT_EQ(rest_of(loader).size(), 5U);
}

TEST_P(WithWorkers, DestructionInTheMiddle) {
  const auto dataset = std::make_shared<TryingPictures>(64);
  dataset->delay = std::chrono::microseconds(50);
  for (int taken = 0; taken < 8; ++taken) {
    Loader loader(dataset, GetParam());
    loader.start(taken);
    for (int i = 0; i < taken; ++i) EXPECT_TRUE(loader.next());
  }
  Loader never_started(dataset, GetParam());
}

TEST_P(WithWorkers, StartInTheMiddleDropsWhatWasGoingOn) {
  const auto dataset = std::make_shared<TryingPictures>(64);
  Loader loader(dataset, GetParam());
  loader.start(5);
  const auto expected = rest_of(loader);
  dataset->delay = std::chrono::microseconds(20);
  for (int taken = 0; taken < 8; ++taken) {
    loader.start(taken);
    for (int i = 0; i < taken; ++i) EXPECT_EQ(loader.next()->indices, loader.indices(taken, i));
    loader.start(5);
    EXPECT_EQ(rest_of(loader), expected);
  }
}

TEST_P(WithWorkers, BatchesOutliveTheLoaderUnchanged) {
  const auto dataset = random_dataset(kShape, 64, 1);
  std::vector<Batch> kept;
  std::vector<Copy> copies;
  {
    Loader loader(dataset, GetParam());
    loader.start(0);
    while (auto batch = loader.next()) {
      copies.emplace_back(*batch);
      kept.push_back(std::move(*batch));
    }
  }
  ASSERT_EQ(kept.size(), 8U);
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(Copy(kept[i]), copies[i]);
}

TEST_P(WithWorkers, MemoryIsUsedAgain) {
  const auto dataset = random_dataset(kShape, 64, 1);
  Loader loader(dataset, GetParam(), {.batch_size = 1}, 2);
  std::set<const float*> places;
  std::optional<Batch> held;
  for (int epoch = 0; epoch < 3; ++epoch) {
    loader.start(epoch);
    while (auto batch = loader.next()) {
      places.insert(pixels_of(*batch));
      held = std::move(batch);  // the consumer holds one while it asks for the next
    }
  }
  // Two ahead, one in each worker's hands, two with the consumer.
  EXPECT_LE(places.size(), static_cast<std::size_t>(2 + GetParam() + 2));
}

TEST(PictureBatches, WorkersStayWithinThePrefetch) {
  const auto dataset = std::make_shared<TryingPictures>(200);
  Loader loader(dataset, 3, {.batch_size = 2}, 4);
  loader.start(0);
  for (std::int64_t delivered = 0; delivered < 100; ++delivered) {
    EXPECT_LE(dataset->accesses.load(), (delivered + 4) * 2);
    ASSERT_TRUE(loader.next());
  }
  EXPECT_EQ(dataset->accesses.load(), 200);
}

void wait_for_accesses(const TryingPictures& dataset, std::int64_t count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (dataset.accesses.load() < count && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  ASSERT_EQ(dataset.accesses.load(), count);
}

TEST(PictureBatches, WorkersRunAheadOfTheConsumer) {
  const auto dataset = std::make_shared<TryingPictures>(200);
  Loader loader(dataset, 2, {.batch_size = 2}, 4);
  loader.start(0);
  wait_for_accesses(*dataset, 8);  // nobody asked for a batch, yet four are made
}

TEST(PictureBatches, StartDropsBatchesThatWereReady) {
  const auto dataset = std::make_shared<TryingPictures>(200);
  Loader loader(dataset, 1, {.batch_size = 2}, 4);
  loader.start(0);
  wait_for_accesses(*dataset, 8);  // one worker: the first three batches are complete
  loader.start(1);
  for (int step = 0; step < 4; ++step) EXPECT_EQ(loader.next()->indices, loader.indices(1, step));
}

TEST(PictureBatches, RefusePartsThatDoNotFit) {
  const auto dataset = samples::transformed(samples::from_pictures(random_dataset(kShape, 10, 1)), kUsualList);
  const ShardedSampler sampler({.dataset_size = 10});
  const auto refuse = [&](const ShardedSampler& s, const data::LoaderOptions& options,
                          std::initializer_list<std::string_view> words) {
    expect_error(ErrorKind::invalid_argument, words, [&] { dataset->batches(dataset, s, options); });
  };
  refuse(sampler, {.workers = -1}, {"-1 workers"});
  refuse(sampler, {.workers = 100000}, {"100000 workers", "1024"});
  refuse(sampler, {.prefetch = -2}, {"-2 batches ahead"});
  refuse(ShardedSampler({.dataset_size = 11}), {}, {"10 records", "sampler counts 11"});
  expect_error(ErrorKind::invalid_argument, {"3x32x32", "3x28x28"}, [&] {
    samples::transformed(samples::from_pictures(random_dataset(kShape, 10, 1)), small_list("[to_tensor]", {3, 28, 28}));
  });

  const auto batches = dataset->batches(dataset, sampler, {});
  expect_error(ErrorKind::invalid_argument, {"step 11", "10 steps"}, [&] { batches->start(0, 11); });
  expect_error(ErrorKind::invalid_argument, {"step -1"}, [&] { batches->start(0, -1); });
  expect_error(ErrorKind::invalid_argument, {"epoch is -1"}, [&] { batches->start(-1, 0); });
}

TEST(PictureBatches, AreTheSamplesOfTheirDataSetInBothForms) {
  const auto pictures = samples::from_pictures(random_dataset(kShape, 12, 1));
  EXPECT_EQ(pictures->get(3, {0, 0, 3}).tensors.at("pictures").sizes(), (std::vector<std::int64_t>{32, 32, 3}));
  // The second list has a step without a compiled form, which changes nothing.
  auto stepwise_list = kUsualList;
  stepwise_list.insert(1, "center_crop: {size: 32}, ");
  const auto compiled = samples::transformed(pictures, kUsualList);
  const auto stepwise = samples::transformed(pictures, stepwise_list);
  const ShardedSampler sampler({.dataset_size = 12, .seed = 4, .batch_size = 5});
  const auto a = compiled->batches(compiled, sampler, {.seed = 11});
  const auto b = stepwise->batches(stepwise, sampler, {.seed = 11});
  for (const std::int64_t epoch : {0, 2}) {
    a->start(epoch, 0);
    b->start(epoch, 0);
    while (const auto batch = a->next()) {
      EXPECT_EQ(Copy(*batch), Copy(*b->next()));
      const auto first = batch->indices.front();
      const auto sample = compiled->get(first, {11, epoch, first});
      EXPECT_TRUE(torch::equal(sample.tensors.at("pictures"), (*batch)["pictures"][0]));
    }
  }
}

}  // namespace
}  // namespace lockstep::test
