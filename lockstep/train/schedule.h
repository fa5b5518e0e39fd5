// Learning rates as pure functions of the step number: nothing to save, nothing to restore.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::train {

enum class ScheduleKind { constant, step, multi_step, cosine };

/// A schedule with every length resolved to optimizer steps.
struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  double base_lr = 0.1;
  std::int64_t warmup_steps = 0;
  double warmup_factor = 0.0;            ///< the warm-up starts from this share of base_lr
  std::int64_t step_size = 1;            ///< step: steps between two decays
  std::vector<std::int64_t> milestones;  ///< multi_step: ascending step numbers at which a decay takes place
  double gamma = 0.1;                    ///< step, multi_step: factor of one decay
  double min_lr = 0.0;                   ///< cosine ends here; step and multi_step never go below it
  std::int64_t total_steps = 1;          ///< cosine: the step number at which min_lr is reached
};

/// The learning rate of optimizer step `t`, counted from 0 at the start of the run.
///
/// With W = warmup_steps, f = warmup_factor, T = total_steps:
///   t <  W:      base_lr * (f + (1 - f) * (t + 1) / W)
///   constant:    base_lr
///   step:        max(min_lr, base_lr * gamma^floor(t / step_size))
///   multi_step:  max(min_lr, base_lr * gamma^(number of milestones <= t))
///   cosine:      min_lr + (base_lr - min_lr) * (1 + cos(pi * u)) / 2 with u = min(1, (t - W) / (T - W))
///                (Loshchilov and Hutter, "SGDR", ICLR 2017, without restarts)
/// Decays count from the start of the run, not from the end of the warm-up.
double learning_rate(const Schedule& schedule, std::int64_t t);

}  // namespace lockstep::train
