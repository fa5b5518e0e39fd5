// The arithmetic of a run's length: batches to steps, epochs and sinks to total steps, warm-up, and the schedule.
#include <lockstep/base/error.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/run_length.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::train {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

std::int64_t warmup_of(const SchedulerConfig& config, std::int64_t steps_per_epoch) {
  if (config.warmup_steps > 0) return config.warmup_steps;
  return std::llround(config.warmup_epochs * static_cast<double>(steps_per_epoch));
}

Schedule make_schedule(const RunConfig& config, std::int64_t steps_per_epoch, std::int64_t total_steps) {
  const auto& scheduler = config.scheduler;
  const auto& part = part_named(parts_or_shipped(scheduler.parts).schedules, scheduler.name, "scheduler.name");
  if (!part.make) {
    fail(ErrorKind::invalid_argument, "scheduler", "the part {} has no function that makes its rates", part.name);
  }
  Schedule schedule;
  schedule.kind = ScheduleKind::own;
  schedule.base_lr = config.optimizer.lr;
  schedule.warmup_steps = warmup_of(scheduler, steps_per_epoch);
  schedule.warmup_factor = scheduler.warmup_factor;
  schedule.total_steps = total_steps;
  schedule.own = part.make(options_of(scheduler, part), {.base_lr = config.optimizer.lr,
                                                         .warmup_steps = schedule.warmup_steps,
                                                         .total_steps = total_steps,
                                                         .steps_per_epoch = steps_per_epoch,
                                                         .min_lr = scheduler.min_lr});
  return schedule;
}

}  // namespace

RunLength run_length_of(const RunConfig& config, std::int64_t batches_per_epoch) {
  constexpr auto kNoLimit = std::numeric_limits<std::int64_t>::max();
  RunLength plan;
  plan.batches_per_epoch = batches_per_epoch;
  plan.steps_per_epoch = divide_up(batches_per_epoch, config.train.accumulate);
  // MindSpore's epochs are sinks.
  const bool sinks = config.train.dataset_sink_mode && config.train.sink_size > 0;
  const auto steps_of_epoch = sinks ? config.train.sink_size : plan.steps_per_epoch;
  const auto by_epochs = config.train.epochs ? *config.train.epochs * steps_of_epoch : kNoLimit;
  plan.total_steps = std::min(by_epochs, config.train.steps.value_or(kNoLimit));
  plan.epochs = divide_up(plan.total_steps, plan.steps_per_epoch);
  plan.schedule = make_schedule(config, plan.steps_per_epoch, plan.total_steps);
  return plan;
}

}  // namespace lockstep::train
