// Learning rates against their formulas.
#include <lockstep/train/optimizer/schedule.h>

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

TEST(Schedule, ExponentialDecaysOnceAUnit) {
  Schedule schedule{.kind = ScheduleKind::exponential, .base_lr = 2.0, .step_size = 3, .milestones = {}, .gamma = 0.5};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 2), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 3), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 11), 0.25);
  schedule.min_lr = 0.3;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 11), 0.3);
}

TEST(Schedule, PolynomialFallsFromTheEndOfWarmUpToTheMinimum) {
  Schedule schedule{.kind = ScheduleKind::polynomial,
                    .base_lr = 1.0,
                    .warmup_steps = 10,
                    .milestones = {},
                    .min_lr = 0.1,
                    .total_steps = 110,
                    .power = 2};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 60), 0.1 + 0.9 * 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 110), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 500), 0.1);
  schedule.power = 1;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 60), 0.55);
}

void expect_rates(const Schedule& schedule, const std::vector<double>& rates) {
  for (std::size_t t = 0; t < rates.size(); ++t) {
    EXPECT_NEAR(learning_rate(schedule, static_cast<std::int64_t>(t)), rates[t], 1e-15) << t;
  }
}

// The rates of Python's torch.optim.lr_scheduler.OneCycleLR(max_lr=0.5) with these arguments.
TEST(Schedule, OneCycleHasTheRatesOfPythons) {
  Schedule schedule{.kind = ScheduleKind::one_cycle, .base_lr = 0.5, .milestones = {}, .total_steps = 10};
  expect_rates(schedule, {0.02, 0.26, 0.5, 0.47524231600673683, 0.40587282697488153, 0.30563101096814466,
                          0.19437098903185537, 0.09412917302511849, 0.024759683993263143, 2e-6, 2e-6});
  schedule.pct_start = 0.5;
  schedule.linear = true;
  schedule.div_factor = 10;
  schedule.final_div_factor = 4;
  expect_rates(schedule, {0.05, 0.1625, 0.275, 0.3875, 0.5, 0.4025, 0.305, 0.2075, 0.11, 0.0125, 0.0125});
}

TEST(Schedule, OneCycleMayFallFromTheStart) {
  const Schedule schedule{
      .kind = ScheduleKind::one_cycle, .base_lr = 0.5, .milestones = {}, .total_steps = 6, .pct_start = 0};
  expect_rates(schedule, {0.4665064849207059, 0.3750005, 0.250001, 0.12500150000000004, 0.03349551507929411, 2e-6});
  const Schedule one_step{.kind = ScheduleKind::one_cycle, .base_lr = 0.5, .milestones = {}, .total_steps = 1};
  EXPECT_DOUBLE_EQ(learning_rate(one_step, 0), 2e-6);
}

}  // namespace
}  // namespace lockstep::train
