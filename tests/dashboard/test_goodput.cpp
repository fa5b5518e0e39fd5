// Accounts of ranks as one account of the job.
#include <lockstep/dashboard/goodput.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::dashboard {
namespace {

using namespace std::chrono_literals;

constexpr auto at(TimePart part) { return static_cast<std::size_t>(part); }

TrainingProgress spent(std::chrono::nanoseconds compute, std::chrono::nanoseconds blocked,
                       std::chrono::nanoseconds start = 0s) {
  TrainingProgress training;
  training.times[at(TimePart::compute)] = compute;
  training.times[at(TimePart::communicate)] = blocked;
  training.times[at(TimePart::start)] = start;
  return training;
}

TEST(Goodput, SaysNothingWithoutReports) {
  Goodput goodput;
  EXPECT_EQ(parts_of(goodput), std::nullopt);
  begin_process(goodput, 0, 0);
  settle(goodput, 100);
  EXPECT_EQ(parts_of(goodput), std::nullopt);
  EXPECT_EQ(effective_ratio({}), 0);
}

TEST(Goodput, TakesTheLeastBlockedTimeAsCommunicationAndTheRestAsWaiting) {
  Goodput goodput;
  for (const int rank : {0, 1}) begin_process(goodput, rank, 0);
  report_times(goodput, 0, spent(6s, 4s));
  report_times(goodput, 1, spent(9s, 1s));
  const auto parts = *parts_of(goodput);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::compute)], 7.5);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::communicate)], 1);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::wait)], 1.5) << "the mean of 3 s and none";
  EXPECT_DOUBLE_EQ(effective_ratio(parts), 1);
}

// The slow rank is another one in the second interval: over both, the minimum would hide the waiting.
TEST(Goodput, ComparesRanksInEachInterval) {
  Goodput goodput;
  for (const int rank : {0, 1}) begin_process(goodput, rank, 0);
  report_times(goodput, 0, spent(6s, 4s));
  report_times(goodput, 1, spent(9s, 1s));
  settle(goodput, 10);
  report_times(goodput, 0, spent(15s, 5s));
  report_times(goodput, 1, spent(15s, 5s));
  const auto before = *parts_of(goodput);
  settle(goodput, 20);
  EXPECT_EQ(*parts_of(goodput), before) << "a settlement changes no sum";
  EXPECT_DOUBLE_EQ(before[at(TimePart::communicate)], 2);
  EXPECT_DOUBLE_EQ(before[at(TimePart::wait)], 3);
}

TEST(Goodput, CountsTheTimeFromTheLastReportOfALostProcessToTheNextProcessAsLost) {
  Goodput goodput;
  for (const int rank : {0, 1}) begin_process(goodput, rank, 1);
  for (const int rank : {0, 1}) report_times(goodput, rank, spent(10s, 0s));
  begin_process(goodput, 1, 15);
  report_times(goodput, 1, spent(0s, 0s, 2s));
  const auto parts = *parts_of(goodput);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::lost)], 2) << "half of 15 - 11 s";
  EXPECT_DOUBLE_EQ(parts[at(TimePart::start)], 1);
  EXPECT_DOUBLE_EQ(parts[at(TimePart::compute)], 10) << "what the lost process reported stays";
  EXPECT_DOUBLE_EQ(effective_ratio(parts), 10.0 / 13);
}

TEST(Goodput, NoReportTakesTimeAway) {
  Goodput goodput;
  begin_process(goodput, 0, 0);
  report_times(goodput, 0, spent(10s, 2s));
  report_times(goodput, 0, spent(3s, 1s));
  EXPECT_DOUBLE_EQ((*parts_of(goodput))[at(TimePart::compute)], 10);
  EXPECT_DOUBLE_EQ((*parts_of(goodput))[at(TimePart::communicate)], 2);
}

}  // namespace
}  // namespace lockstep::dashboard
