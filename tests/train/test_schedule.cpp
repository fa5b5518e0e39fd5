// Learning rates against their formulas.
#include <lockstep/train/schedule.h>

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace lockstep::train {
namespace {

TEST(Schedule, Constant) {
  const Schedule schedule{.base_lr = 0.25, .milestones = {}};
  for (const std::int64_t t : {0, 1, 1000000}) EXPECT_EQ(learning_rate(schedule, t), 0.25);
}

TEST(Schedule, WarmUpRisesLinearlyToTheBase) {
  Schedule schedule{.base_lr = 0.8, .warmup_steps = 4, .milestones = {}};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 3), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 0.8);
  schedule.warmup_factor = 0.5;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1), 0.6);
}

TEST(Schedule, StepDecaysAtEachMultiple) {
  Schedule schedule{.kind = ScheduleKind::step, .base_lr = 1.0, .step_size = 10, .milestones = {}, .gamma = 0.5};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 35), 0.125);
  schedule.min_lr = 0.2;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 35), 0.2);
}

TEST(Schedule, MultiStepDecaysAtItsMilestones) {
  const Schedule schedule{.kind = ScheduleKind::multi_step, .base_lr = 0.1, .milestones = {5, 8}, .gamma = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 5), 0.01);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 7), 0.01);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 8), 0.001);
}

TEST(Schedule, CosineFallsFromTheEndOfWarmUpToTheMinimum) {
  const Schedule schedule{.kind = ScheduleKind::cosine,
                          .base_lr = 1.0,
                          .warmup_steps = 10,
                          .milestones = {},
                          .min_lr = 0.1,
                          .total_steps = 110};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 60), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 35), 0.1 + 0.9 * (1 + std::cos(std::numbers::pi / 4)) / 2);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 110), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 500), 0.1);
}

}  // namespace
}  // namespace lockstep::train
