// Learning rates as pure functions of the step number: there is no state to save or restore. And the length of a run in
// steps, which they need.
#pragma once

#include <lockstep/train/parts.h>
#include <lockstep/train/resolved_run.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep::train {

enum class ScheduleKind { constant, step, multi_step, exponential, cosine, polynomial, one_cycle, own };

/// A schedule with every length resolved to optimizer steps.
struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  double base_lr = 0.1;
  std::int64_t warmup_steps = 0;
  double warmup_factor = 0.0;                 ///< the warm-up starts from this share of base_lr
  std::int64_t step_size = 1;                 ///< step, exponential: steps between two decays
  std::vector<std::int64_t> milestones;       ///< multi_step: ascending step numbers at which a decay takes place
  double gamma = 0.1;                         ///< step, multi_step, exponential: factor of one decay
  double min_lr = 0.0;                        ///< cosine, polynomial end here; those with decays never go below it
  std::int64_t total_steps = 1;               ///< cosine, polynomial: the step number at which min_lr is reached;
                                              ///< one_cycle: the steps of the cycle
  double power = 1.0;                         ///< polynomial
  double pct_start = 0.3;                     ///< one_cycle: share of total_steps in which the rate rises
  bool linear = false;                        ///< one_cycle: straight lines instead of half cosines
  double div_factor = 25.0;                   ///< one_cycle: from base_lr / div_factor ...
  double final_div_factor = 1e4;              ///< one_cycle: ... over base_lr to that / final_div_factor
  std::function<double(std::int64_t)> own{};  ///< own: that of a SchedulePart
};

/// The learning rate of optimizer step `t`, counted from 0 at the start of the run.
///
/// With W = warmup_steps, f = warmup_factor, T = total_steps:
///   t <  W:      base_lr * (f + (1 - f) * (t + 1) / W)
///   constant:    base_lr
///   step:        max(min_lr, base_lr * gamma^floor(t / step_size))
///   multi_step:  max(min_lr, base_lr * gamma^(number of milestones <= t))
///   exponential: max(min_lr, base_lr * gamma^floor(t / step_size)), where step_size is the unit (an epoch, or 1), as
///                torch's ExponentialLR gives when it steps once a unit
///   cosine:      min_lr + (base_lr - min_lr) * (1 + cos(pi * u)) / 2 with u = min(1, (t - W) / (T - W))
///                (Loshchilov and Hutter, "SGDR", ICLR 2017, without restarts)
///   polynomial:  min_lr + (base_lr - min_lr) * (1 - u)^power with the same u
///   one_cycle:   with s = base_lr / div_factor, e = s / final_div_factor, the peak P = pct_start * T - 1, and
///                a(x, y, u) = y + (x - y) * (1 + cos(pi * u)) / 2, or x + (y - x) * u when linear:
///                a(s, base_lr, t / P) for t <= P, then a(base_lr, e, min(1, (t - P) / (T - 1 - P)))
///                (Smith and Topin, "Super-Convergence", 2018; the rates of torch's OneCycleLR with two phases, whose
///                last step has the rate e). It has no other warm-up, and does not change the momentum.
///   own:         own(t). Error(numeric) if that is negative or not a number.
/// Decays count from the start of the run, not from the end of the warm-up.
double learning_rate(const Schedule& schedule, std::int64_t t);

std::vector<SchedulePart> schedule_parts();

struct RunLength {
  std::int64_t batches_per_epoch = 0;  ///< of each rank
  std::int64_t steps_per_epoch = 0;    ///< ceil(batches_per_epoch / train.accumulate); the last step may be smaller
  std::int64_t total_steps = 0;        ///< train.epochs in steps or train.steps, whichever comes first
  std::int64_t epochs = 0;             ///< epochs that are started; the last one may be incomplete
  Schedule schedule;
};

/// Pure.
RunLength run_length_of(const ResolvedRun& config, std::int64_t batches_per_epoch);

/// Whether the warm-up is as long as the run, or longer.
inline bool ends_in_warm_up(const RunLength& plan) {
  return plan.schedule.warmup_steps > 0 && plan.schedule.warmup_steps >= plan.total_steps;
}

}  // namespace lockstep::train
