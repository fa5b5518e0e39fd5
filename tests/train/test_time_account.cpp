// The account of a rank's time, with given times: what belongs to which part, and that the parts add up.
#include <lockstep/train/output/console.h>
#include <lockstep/train/output/time_account.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <vector>

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

nanoseconds part(const TimeAccount& account, TimePart which) {
  return account.parts().at(static_cast<std::size_t>(which));
}

/// A step of 10 ms from `begin` on, of which 2 ms are data, and `blocked` is communication.
void make_step(TimeAccount& account, std::int64_t number, nanoseconds begin, nanoseconds blocked = 0ms) {
  account.begin_step(number, {begin, 0ms});
  account.enter(TimePart::data, {begin, 0ms});
  account.enter(TimePart::compute, {begin + 2ms, 0ms});
  account.complete_step({begin + 10ms, blocked}, /*splits=*/true);
}

TEST(TimeAccount, TheTimeUpToTheFirstStepIsStart) {
  TimeAccount account(100ms);
  EXPECT_EQ(account.now_in(), TimePart::start);
  make_step(account, 1, 130ms, 3ms);
  EXPECT_EQ(account.now_in(), TimePart::other);
  EXPECT_EQ(part(account, TimePart::start), 30ms);
  EXPECT_EQ(part(account, TimePart::data), 2ms);
  EXPECT_EQ(part(account, TimePart::compute), 5ms);
  EXPECT_EQ(part(account, TimePart::communicate), 3ms);
  account.begin_step(2, {141ms, 3ms});
  EXPECT_EQ(part(account, TimePart::other), 1ms);
  EXPECT_EQ(sum_of(account.parts()), account.wall(141ms));
}

TEST(TimeAccount, AnIncompleteStepIsInNoPartYet) {
  TimeAccount account(0ms);
  account.begin_step(1, {5ms, 0ms});
  account.update({9ms, 1ms});
  EXPECT_EQ(sum_of(account.parts()), 5ms);
  account.complete_step({10ms, 1ms}, true);
  EXPECT_EQ(sum_of(account.parts()), 10ms);
}

TEST(TimeAccount, BlockedTimeIsNotLongerThanTheTimeInWhichItWas) {
  TimeAccount account(0ms);
  account.begin_step(1, {0ms, 0ms});
  account.complete_step({10ms, 25ms}, true);  // of two threads
  EXPECT_EQ(part(account, TimePart::communicate), 10ms);
  EXPECT_EQ(part(account, TimePart::compute), 0ms);
  account.begin_step(2, {10ms, 25ms});
  account.complete_step({20ms, 2ms}, true);  // of another group, which began at 0
  EXPECT_EQ(part(account, TimePart::communicate), 10ms);
  EXPECT_EQ(part(account, TimePart::compute), 10ms);
}

TEST(TimeAccount, TimeBlockedInOtherPartsStaysThere) {
  TimeAccount account(0ms);
  account.enter(TimePart::evaluate, {10ms, 0ms});
  EXPECT_EQ(account.enter(TimePart::save, {30ms, 15ms}), TimePart::evaluate);
  account.enter(TimePart::other, {35ms, 20ms});
  EXPECT_EQ(part(account, TimePart::evaluate), 20ms);
  EXPECT_EQ(part(account, TimePart::save), 5ms);
  EXPECT_EQ(part(account, TimePart::communicate), 0ms);
}

TEST(TimeAccount, WhatIsMoreThanTheLeastOfAllRanksWasWait) {
  TimeAccount account(0ms);
  make_step(account, 1, 0ms, 5ms);
  make_step(account, 2, 10ms, 1ms);
  EXPECT_EQ(account.kept(), (std::vector<nanoseconds>{5ms, 1ms}));
  account.split(std::vector<nanoseconds>{2ms, 1ms});
  EXPECT_EQ(part(account, TimePart::communicate), 3ms);
  EXPECT_EQ(part(account, TimePart::wait), 3ms);
  EXPECT_TRUE(account.kept().empty());
  EXPECT_EQ(sum_of(account.parts()), account.wall(20ms));
}

TEST(TimeAccount, KeepsBlockedTimesOfLimitedSteps) {
  TimeAccount account(0ms);
  const auto more = static_cast<std::int64_t>(TimeAccount::kKeptSteps) + 5;
  for (std::int64_t i = 0; i < more; ++i) make_step(account, i + 1, i * 10ms, 1ms);
  EXPECT_EQ(account.kept().size(), TimeAccount::kKeptSteps);
  EXPECT_EQ(part(account, TimePart::communicate), more * 1ms);
}

TEST(TimeAccount, FromALossToTheNextNewStepAllIsLost) {
  TimeAccount account(0ms);
  make_step(account, 1, 0ms);
  make_step(account, 2, 10ms);
  account.begin_step(3, {20ms, 0ms});
  account.enter(TimePart::data, {21ms, 0ms});
  account.lose(25ms);
  EXPECT_EQ(part(account, TimePart::lost), 5ms);
  EXPECT_TRUE(account.kept().empty());
  EXPECT_EQ(account.now_in(), TimePart::lost);

  account.go_on(1, {40ms, 0ms});  // from a checkpoint
  make_step(account, 2, 45ms);    // again
  EXPECT_EQ(account.now_in(), TimePart::lost);
  account.enter(TimePart::save, {56ms, 0ms});
  account.enter(TimePart::other, {58ms, 0ms});
  EXPECT_TRUE(account.kept().empty()) << "other ranks may not have repeated the step";
  make_step(account, 3, 60ms);
  EXPECT_EQ(part(account, TimePart::lost), 40ms);
  EXPECT_EQ(part(account, TimePart::compute), 24ms);
  EXPECT_EQ(part(account, TimePart::save), 0ms);
  EXPECT_EQ(account.kept().size(), 1u);
  EXPECT_EQ(sum_of(account.parts()), account.wall(70ms));
}

TEST(TimeAccount, ALossIsOverWhereNoStepIsRepeated) {
  TimeAccount account(0ms);
  make_step(account, 1, 0ms);
  account.enter(TimePart::evaluate, {12ms, 0ms});
  account.lose(15ms);
  account.go_on(1, {20ms, 0ms});
  EXPECT_EQ(account.now_in(), TimePart::other);
  account.enter(TimePart::evaluate, {21ms, 0ms});
  account.update({26ms, 0ms});
  EXPECT_EQ(part(account, TimePart::lost), 8ms);
  EXPECT_EQ(part(account, TimePart::evaluate), 5ms);
}

TEST(TimeAccount, AReplacementHasThePartsOfTheOthers) {
  TimeAccount account(1000ms);
  PartTimes others{};
  others.at(static_cast<std::size_t>(TimePart::compute)) = 500ms;
  others.at(static_cast<std::size_t>(TimePart::lost)) = 100ms;
  account.completed_before(7);
  account.take_over(others, 1040ms);
  EXPECT_EQ(account.parts(), others);
  EXPECT_EQ(account.wall(1040ms), 600ms);
  EXPECT_EQ(account.now_in(), TimePart::lost);
  PartTimes own{};
  own.at(static_cast<std::size_t>(TimePart::lost)) = 40ms;
  EXPECT_EQ(account.own(), own);
  account.go_on(7, {1050ms, 0ms});
  make_step(account, 8, 1050ms);
  EXPECT_EQ(part(account, TimePart::lost), 110ms);
  EXPECT_EQ(sum_of(account.parts()), account.wall(1060ms));
}

TEST(TimeAccount, ARunGoesOnWithThePartsOfItsCheckpoint) {
  TimeAccount account(0ms);
  PartTimes earlier{};
  earlier.at(static_cast<std::size_t>(TimePart::compute)) = 500ms;
  account.add_earlier(earlier);
  account.completed_before(6);  // the checkpoint is of step 5
  account.go_on(5, {10ms, 0ms});
  make_step(account, 6, 10ms);
  make_step(account, 7, 20ms);
  EXPECT_EQ(part(account, TimePart::lost), 10ms);
  EXPECT_EQ(part(account, TimePart::start), 10ms);
  EXPECT_EQ(part(account, TimePart::compute), 508ms);
  EXPECT_EQ(account.wall(30ms), 530ms);
  EXPECT_EQ(sum_of(account.own()), 30ms);
  EXPECT_EQ(sum_of(account.parts()), 530ms);
}

TEST(TimeAccount, PartsAddUpAfterAnyHistory) {
  std::mt19937 random(5);
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  for (int run = 0; run < 200; ++run) {
    TimeAccount account(nanoseconds(below(100)));
    Moment now{nanoseconds(100), {}};
    std::int64_t step = 0;
    const auto passes = [&] { return now = {now.time + nanoseconds(below(50)), now.blocked + nanoseconds(below(60))}; };
    for (int i = 0; i < 100; ++i) {
      switch (below(6)) {
        case 0: account.enter(static_cast<TimePart>(below(kTimeParts.size())), passes()); break;
        case 1:
          account.lose(passes().time);
          now.blocked = {};
          account.go_on(step = below(static_cast<int>(step) + 1), passes());
          break;
        case 2: account.split(std::vector<nanoseconds>(account.kept().size(), nanoseconds(below(40)))); break;
        default:
          account.begin_step(++step, passes());
          account.enter(TimePart::data, passes());
          account.enter(TimePart::compute, passes());
          account.complete_step(passes(), true);
      }
      account.update(now);
      ASSERT_EQ(sum_of(account.parts()), account.wall(now.time));
      for (const auto time : account.parts()) ASSERT_GE(time, 0ns);
    }
  }
}

TEST(TimeLine, HasThePartsThatCountAndTheRankThatOthersWaitFor) {
  TimeDivision times{.wall = 100, .parts = {{"start", 10}, {"compute", 60}, {"wait", 29.5}, {"other", 0.5}}};
  EXPECT_EQ(time_line(times),
            "time: 100.0 s, of which start 10 %, compute 60 %, wait 30 %; effective training time ratio 0.90");
  times.shortest_wait = {.rank = 3, .seconds = 1};
  times.longest_wait = {.rank = 0, .seconds = 2};
  EXPECT_THAT(time_line(times), testing::EndsWith("ratio 0.90"));
  times.longest_wait->seconds = 40;
  EXPECT_THAT(time_line(times), testing::EndsWith("; rank 0 waited 40.0 s for other ranks, rank 3 only 1.0 s"));
}

}  // namespace
}  // namespace lockstep::train
