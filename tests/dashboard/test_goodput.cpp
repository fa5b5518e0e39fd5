// Accounts of ranks as one account of the job, which always adds up to the time since its start.
#include <lockstep/dashboard/goodput.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace lockstep::dashboard {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr auto at(TimePart part) { return static_cast<std::size_t>(part); }

TrainingProgress spent(nanoseconds compute, nanoseconds start = 0s, nanoseconds lost = 0s) {
  TrainingProgress training;
  training.times[at(TimePart::compute)] = compute;
  training.times[at(TimePart::start)] = start;
  training.times[at(TimePart::lost)] = lost;
  return training;
}

double sum_of(const Parts& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

TEST(Goodput, SaysNothingWithoutReports) {
  Goodput goodput;
  EXPECT_EQ(parts_of(goodput, 100), std::nullopt);
  begin_process(goodput, 0, 0);
  report_times(goodput, 0, {}, 100);
  EXPECT_EQ(parts_of(goodput, 100), std::nullopt);
  EXPECT_EQ(effective_ratio({}), 0);
}

TEST(Goodput, GivesMeansAndCountsTheUnreportedTimeAsWhatRanksDoNow) {
  Goodput goodput;
  for (const int rank : {0, 1}) begin_process(goodput, rank, 1);
  report_times(goodput, 0, spent(6s, 2s), 10);
  report_times(goodput, 1, spent(7s, 2s), 10);
  set_present(goodput, 0, TimePart::save);
  set_present(goodput, 1, TimePart::compute);
  const auto parts = *parts_of(goodput, 12);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::start)], 3) << "1 s before the processes";
  EXPECT_DOUBLE_EQ(parts[at(TimePart::compute)], 7.5);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::save)], 1.5);
  EXPECT_DOUBLE_EQ(sum_of(parts), 12);
  EXPECT_DOUBLE_EQ(effective_ratio(parts), 7.5 / 12);
}

TEST(Goodput, ARankWithoutReportsDoesNotCount) {
  Goodput goodput;
  for (const int rank : {0, 1, 2}) begin_process(goodput, rank, 0);
  for (const int rank : {0, 1}) report_times(goodput, rank, spent(10s), 10);
  report_times(goodput, 2, {}, 10);
  EXPECT_DOUBLE_EQ((*parts_of(goodput, 10))[at(TimePart::compute)], 10);
}

TEST(Goodput, WhatALostProcessDidNotReportIsLostAndSoIsTheStartOfTheNext) {
  Goodput goodput;
  for (const int rank : {0, 1}) begin_process(goodput, rank, 0);
  report_times(goodput, 0, spent(15s), 15);
  report_times(goodput, 1, spent(10s), 10);
  begin_process(goodput, 1, 15);
  report_times(goodput, 1, spent(0s, 2s), 17);
  auto parts = *parts_of(goodput, 17);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::start)], 1) << "the present of rank 0, which has reported nothing else";
  EXPECT_DOUBLE_EQ(parts[at(TimePart::lost)], 3.5) << "half of 5 s and 2 s";
  EXPECT_DOUBLE_EQ(parts[at(TimePart::compute)], 12.5) << "what the lost process reported stays";
  // It takes part again, and counts what it was not there as lost.
  report_times(goodput, 0, spent(20s), 20);
  report_times(goodput, 1, spent(1s, 0s, 4s), 20);
  parts = *parts_of(goodput, 20);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::start)], 0);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::lost)], 4.5);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::compute)], 15.5);
}

TEST(Goodput, ARankThatJoinsBeginsWithTheMeanOfTheOthers) {
  Goodput goodput;
  begin_process(goodput, 0, 0);
  report_times(goodput, 0, spent(90s, 10s), 100);
  begin_process(goodput, 1, 100);
  report_times(goodput, 1, spent(0s, 5s), 105);
  report_times(goodput, 0, spent(95s, 10s), 105);
  const auto parts = *parts_of(goodput, 105);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::start)], 12.5);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::compute)], 92.5);
}

// Looks are a second apart: a process has begun before it is seen.
TEST(Goodput, AProcessThatIsSeenLateHasItsWholeTime) {
  Goodput goodput;
  begin_process(goodput, 0, 1.1);
  report_times(goodput, 0, {}, 1.1);
  report_times(goodput, 0, spent(1s, 500ms), 2.1);
  const auto parts = *parts_of(goodput, 2.1);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::compute)], 1);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::start)], 1.1) << "0.6 s before the process";
}

// The page of a scheduler that was started again.
TEST(Goodput, TimesBeforeThePageDoNotCount) {
  Goodput goodput;
  begin_process(goodput, 0, 2);
  report_times(goodput, 0, spent(900s, 100s, 50s), 3);
  set_present(goodput, 0, TimePart::compute);
  auto parts = *parts_of(goodput, 3);
  EXPECT_DOUBLE_EQ(sum_of(parts), 3);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::start)], 0);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::lost)], 0);
  report_times(goodput, 0, spent(910s, 100s, 50s), 13);
  parts = *parts_of(goodput, 13);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::compute)], 13);
  EXPECT_DOUBLE_EQ(sum_of(parts), 13);
}

// Whatever ranks report: pages may be of a hostile worker.
TEST(Goodput, PartsAddUpToTheTimeAfterAnyReports) {
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t limit) { return static_cast<std::int64_t>(random() % limit); };
  for (int run = 0; run < 200; ++run) {
    Goodput goodput;
    double now = 0;
    for (int i = 0; i < 100; ++i) {
      now += static_cast<double>(below(5));
      const int rank = static_cast<int>(below(3));
      if (below(8) == 0 || !goodput.ranks.contains(rank)) begin_process(goodput, rank, now);
      TrainingProgress training;
      for (auto& time : training.times) time = below(10) == 0 ? nanoseconds(below(1ULL << 62)) : 1s * below(20);
      report_times(goodput, rank, training, now);
      set_present(goodput, rank, static_cast<TimePart>(below(kTimeParts.size())));
      const auto parts = parts_of(goodput, now);
      ASSERT_TRUE(parts);
      ASSERT_NEAR(sum_of(*parts), now, 1e-6);
      for (const double part : *parts) ASSERT_GE(part, 0);
    }
  }
}

}  // namespace
}  // namespace lockstep::dashboard
