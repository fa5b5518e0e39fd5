// Batches one ahead: order, errors, restarts, and the count of what was left out.
#include <lockstep/base/error.h>
#include <lockstep/train/resources/run_data.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace lockstep::train {
namespace {

using testing::ElementsAre;

// Batches that are numbered by their count: from the first step's number to `last`, where it ends or throws.
class Numbered final : public samples::Batches {
 public:
  explicit Numbered(std::int64_t last, bool throws = false) : last_(last), throws_(throws) {}

  void start(std::int64_t epoch, std::int64_t step) override { now_ = 100 * epoch + step; }
  std::optional<samples::Batch> next() override {
    if (now_ == last_ && throws_) fail(ErrorKind::data, "numbered", "there is no batch {}", now_);
    if (now_ == last_) return std::nullopt;
    samples::Batch batch;
    batch.count = now_++;
    return batch;
  }
  std::int64_t left_out() const override { return now_; }

 private:
  std::int64_t last_, now_ = 0;
  bool throws_;
};

DeviceFeed::Move no_move() {
  return [](samples::Batch&) { return DeviceFeed::Arrived(); };
}

std::vector<std::int64_t> rest_of(samples::Batches& batches) {
  std::vector<std::int64_t> numbers;
  while (const auto batch = batches.next()) numbers.push_back(batch->count);
  return numbers;
}

TEST(DeviceFeed, GivesTheBatchesOfItsSourceInTheirOrder) {
  DeviceFeed feed(std::make_unique<Numbered>(4), no_move());
  feed.start(0, 0);
  EXPECT_THAT(rest_of(feed), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(feed.next(), std::nullopt) << "and ends for good";
  feed.start(0, 2);
  EXPECT_THAT(rest_of(feed), ElementsAre(2, 3));
}

TEST(DeviceFeed, StartsAgainInTheMiddleWithNothingOfBefore) {
  DeviceFeed feed(std::make_unique<Numbered>(104), no_move());
  for (int i = 0; i < 50; ++i) {
    feed.start(0, 0);
    EXPECT_EQ(feed.next()->count, 0);
    feed.start(1, 2);
    EXPECT_THAT(rest_of(feed), ElementsAre(102, 103));
  }
}

TEST(DeviceFeed, AnErrorComesInTheTurnOfItsBatch) {
  DeviceFeed feed(std::make_unique<Numbered>(2, /*throws=*/true), no_move());
  feed.start(0, 0);
  EXPECT_EQ(feed.next()->count, 0);
  EXPECT_EQ(feed.next()->count, 1);
  EXPECT_THROW(feed.next(), Error);
  EXPECT_EQ(feed.next(), std::nullopt);
  feed.start(0, 1);
  EXPECT_EQ(feed.next()->count, 1);
}

TEST(DeviceFeed, CountsWhatWasLeftOutOfTheBatchesThatItGave) {
  DeviceFeed feed(std::make_unique<Numbered>(9), no_move());
  feed.start(0, 3);
  EXPECT_EQ(feed.left_out(), 0);
  feed.next();
  EXPECT_EQ(feed.left_out(), 4);
}

TEST(DeviceFeed, MovesOnItsOwnThreadAndTellsTheConsumerOnTheirs) {
  std::atomic<int> moved = 0;
  int arrived = 0;
  const auto consumer = std::this_thread::get_id();
  DeviceFeed feed(std::make_unique<Numbered>(3), [&](samples::Batch& batch) -> DeviceFeed::Arrived {
    EXPECT_NE(std::this_thread::get_id(), consumer);
    batch.count += 10;
    ++moved;
    return [&] {
      EXPECT_EQ(std::this_thread::get_id(), consumer);
      ++arrived;
    };
  });
  feed.start(0, 0);
  EXPECT_EQ(feed.next()->count, 10);
  EXPECT_EQ(arrived, 1);
  EXPECT_THAT(rest_of(feed), ElementsAre(11, 12));
  EXPECT_EQ(moved, 3);
  EXPECT_EQ(arrived, 3);
}

TEST(DeviceFeed, NobodyHasToTakeAll) {
  for (int i = 0; i < 50; ++i) {
    DeviceFeed feed(std::make_unique<Numbered>(1000), no_move());
    if (i % 3 == 0) continue;
    feed.start(0, 0);
    if (i % 3 == 1) feed.next();
  }
}

}  // namespace
}  // namespace lockstep::train
