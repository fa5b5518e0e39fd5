#include <lockstep/base/step_times.h>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using Time = StepTimes::Time;

TEST(StepTimes, NothingIsKnownBeforeTheSecondStep) {
  StepTimes times;
  EXPECT_EQ(times.recent(), std::nullopt);
  times.complete(1, Time(10s), 5s);
  EXPECT_EQ(times.recent(), std::nullopt);
  times.complete(2, Time(10s + 30ms), 5s + 10ms);
  EXPECT_EQ(times.recent(), (StepTime{30ms, 20ms}));
}

TEST(StepTimes, OneLongStepIsNotTypical) {
  StepTimes times;
  Time now(1s);
  times.complete(1, now, 0s);
  for (int step = 2; step <= 40; ++step) times.complete(step, now += (step % 10 == 0 ? 5s : 4ms), 0s);
  EXPECT_EQ(times.recent(), (StepTime{4ms, 4ms}));
}

TEST(StepTimes, OldStepsAreForgotten) {
  StepTimes times;
  Time now(1s);
  auto waited = 0ns;
  times.complete(1, now, waited);
  for (int step = 2; step <= 30; ++step) times.complete(step, now += 4ms, waited += 1ms);
  for (int step = 31; step <= 45; ++step) times.complete(step, now += 50ms, waited += 40ms);
  EXPECT_EQ(times.recent(), (StepTime{50ms, 10ms}));
}

TEST(StepTimes, StepsThatWereNotToldWereEquallyFast) {
  StepTimes times;
  times.complete(10, Time(1s), 0s);
  times.complete(20, Time(2s), 500ms);
  EXPECT_EQ(times.recent(), (StepTime{100ms, 50ms}));
}

TEST(StepTimes, WhatCannotBeIsNotReported) {
  StepTimes times;
  times.complete(10, Time(1s), 0s);
  times.complete(10, Time(2s), 0s);
  times.complete(3, Time(3s), 0s);
  EXPECT_EQ(times.recent(), std::nullopt) << "a step that is not a later one is the first again";
  times.complete(4, Time(3s + 10ms), 30ms);
  EXPECT_EQ(times.recent(), (StepTime{10ms, 0ms})) << "three threads have waited at the same time";
}

}  // namespace
}  // namespace lockstep
