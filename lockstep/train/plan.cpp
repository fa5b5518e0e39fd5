#include <lockstep/train/plan.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::train {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

ScheduleKind kind_of(const std::string& name) {
  if (name == "step") return ScheduleKind::step;
  if (name == "multi_step") return ScheduleKind::multi_step;
  if (name == "exponential") return ScheduleKind::exponential;
  if (name == "cosine") return ScheduleKind::cosine;
  if (name == "polynomial") return ScheduleKind::polynomial;
  return name == "one_cycle" ? ScheduleKind::one_cycle : ScheduleKind::constant;
}

std::int64_t warmup_of(const SchedulerConfig& config, std::int64_t steps_per_epoch) {
  if (config.warmup_steps > 0) return config.warmup_steps;
  return std::llround(config.warmup_epochs * static_cast<double>(steps_per_epoch));
}

Schedule make_schedule(const RunConfig& config, std::int64_t steps_per_epoch, std::int64_t total_steps) {
  const auto& scheduler = config.scheduler;
  const std::int64_t unit = scheduler.unit == "epochs" ? steps_per_epoch : 1;
  Schedule schedule;
  schedule.kind = kind_of(scheduler.name);
  schedule.base_lr = config.optimizer.lr;
  schedule.warmup_steps = warmup_of(scheduler, steps_per_epoch);
  schedule.warmup_factor = scheduler.warmup_factor;
  schedule.step_size = (schedule.kind == ScheduleKind::exponential ? 1 : scheduler.step_size) * unit;
  for (const auto milestone : scheduler.milestones) schedule.milestones.push_back(milestone * unit);
  schedule.gamma = scheduler.gamma;
  schedule.min_lr = scheduler.min_lr;
  schedule.total_steps = total_steps;
  schedule.power = scheduler.power;
  schedule.pct_start = scheduler.pct_start;
  schedule.linear = scheduler.anneal == "linear";
  schedule.div_factor = scheduler.div_factor;
  schedule.final_div_factor = scheduler.final_div_factor;
  return schedule;
}

}  // namespace

RunPlan make_plan(const RunConfig& config, std::int64_t batches_per_epoch) {
  constexpr auto kNoLimit = std::numeric_limits<std::int64_t>::max();
  RunPlan plan;
  plan.batches_per_epoch = batches_per_epoch;
  plan.steps_per_epoch = divide_up(batches_per_epoch, config.train.accumulate);
  const auto by_epochs = config.train.epochs ? *config.train.epochs * plan.steps_per_epoch : kNoLimit;
  plan.total_steps = std::min(by_epochs, config.train.steps.value_or(kNoLimit));
  plan.epochs = divide_up(plan.total_steps, plan.steps_per_epoch);
  plan.schedule = make_schedule(config, plan.steps_per_epoch, plan.total_steps);
  return plan;
}

}  // namespace lockstep::train
