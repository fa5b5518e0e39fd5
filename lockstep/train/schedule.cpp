#include <lockstep/train/schedule.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep::train {
namespace {

double decayed(const Schedule& schedule, std::int64_t decays) {
  return std::max(schedule.min_lr, schedule.base_lr * std::pow(schedule.gamma, static_cast<double>(decays)));
}

double cosine(const Schedule& schedule, std::int64_t t) {
  const auto length = schedule.total_steps - schedule.warmup_steps;
  const auto done = t - schedule.warmup_steps;
  const double u = done >= length ? 1.0 : static_cast<double>(done) / static_cast<double>(length);
  return schedule.min_lr + (schedule.base_lr - schedule.min_lr) * (1.0 + std::cos(std::numbers::pi * u)) / 2.0;
}

}  // namespace

double learning_rate(const Schedule& schedule, std::int64_t t) {
  if (t < schedule.warmup_steps) {
    const double part = static_cast<double>(t + 1) / static_cast<double>(schedule.warmup_steps);
    return schedule.base_lr * (schedule.warmup_factor + (1.0 - schedule.warmup_factor) * part);
  }
  switch (schedule.kind) {
    case ScheduleKind::constant: return schedule.base_lr;
    case ScheduleKind::step: return decayed(schedule, t / schedule.step_size);
    case ScheduleKind::multi_step: {
      const auto& at = schedule.milestones;
      return decayed(schedule, std::upper_bound(at.begin(), at.end(), t) - at.begin());
    }
    case ScheduleKind::cosine: return cosine(schedule, t);
  }
  return schedule.base_lr;
}

}  // namespace lockstep::train
