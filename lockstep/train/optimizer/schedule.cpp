// The formulas of learning rates: linear warm-up, then constant, step, exponential, cosine, polynomial or one-cycle.
#include <lockstep/base/error.h>
#include <lockstep/train/optimizer/schedule.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep::train {
namespace {

double decayed(const Schedule& schedule, std::int64_t decays) {
  return std::max(schedule.min_lr, schedule.base_lr * std::pow(schedule.gamma, static_cast<double>(decays)));
}

/// The share of the run after the warm-up that is done.
double share_done(const Schedule& schedule, std::int64_t t) {
  const auto length = schedule.total_steps - schedule.warmup_steps;
  const auto done = t - schedule.warmup_steps;
  return done >= length ? 1.0 : static_cast<double>(done) / static_cast<double>(length);
}

double half_cosine(double u) { return (1.0 + std::cos(std::numbers::pi * u)) / 2.0; }

/// From the base to the minimum, as `left` falls from 1 to 0.
double falling(const Schedule& schedule, double left) {
  return schedule.min_lr + (schedule.base_lr - schedule.min_lr) * left;
}

double own_rate(const Schedule& schedule, std::int64_t t) {
  const double rate = schedule.own(t);
  if (std::isfinite(rate) && rate >= 0) return rate;
  fail(ErrorKind::numeric, "scheduler", "the schedule gives step {} the learning rate {}", t, rate);
}

double one_cycle(const Schedule& schedule, std::int64_t t) {
  const double first = schedule.base_lr / schedule.div_factor;
  const double last = first / schedule.final_div_factor;
  const auto between = [&](double from, double to, double u) {
    return schedule.linear ? from + (to - from) * u : to + (from - to) * half_cosine(u);
  };
  const auto step = static_cast<double>(t);
  const auto end = static_cast<double>(schedule.total_steps - 1);
  const double peak = schedule.pct_start * static_cast<double>(schedule.total_steps) - 1.0;
  if (step <= peak) return between(first, schedule.base_lr, peak > 0 ? step / peak : 1.0);
  return between(schedule.base_lr, last, step >= end ? 1.0 : (step - peak) / (end - peak));
}

}  // namespace

double learning_rate(const Schedule& schedule, std::int64_t t) {
  if (t < schedule.warmup_steps) {
    const double part = static_cast<double>(t + 1) / static_cast<double>(schedule.warmup_steps);
    return schedule.base_lr * (schedule.warmup_factor + (1.0 - schedule.warmup_factor) * part);
  }
  switch (schedule.kind) {
    case ScheduleKind::constant: return schedule.base_lr;
    case ScheduleKind::step:
    case ScheduleKind::exponential: return decayed(schedule, t / schedule.step_size);
    case ScheduleKind::multi_step: {
      const auto& at = schedule.milestones;
      return decayed(schedule, std::upper_bound(at.begin(), at.end(), t) - at.begin());
    }
    case ScheduleKind::cosine: return falling(schedule, half_cosine(share_done(schedule, t)));
    case ScheduleKind::polynomial: return falling(schedule, std::pow(1.0 - share_done(schedule, t), schedule.power));
    case ScheduleKind::one_cycle: return one_cycle(schedule, t);
    case ScheduleKind::own: return own_rate(schedule, t);
  }
  return schedule.base_lr;
}

}  // namespace lockstep::train
