// The length of a run, and its schedule, in optimizer steps.
#pragma once

#include <lockstep/train/config.h>
#include <lockstep/train/optimizer/schedule.h>

#include <cstdint>

namespace lockstep::train {

struct RunLength {
  std::int64_t batches_per_epoch = 0;  ///< of each rank
  std::int64_t steps_per_epoch = 0;    ///< ceil(batches_per_epoch / train.accumulate); the last step may be smaller
  std::int64_t total_steps = 0;        ///< train.epochs in steps or train.steps, whichever comes first
  std::int64_t epochs = 0;             ///< epochs that are started; the last one may be incomplete
  Schedule schedule;
};

/// Pure.
RunLength run_length_of(const RunConfig& config, std::int64_t batches_per_epoch);

/// Whether the warm-up is as long as the run, or longer.
inline bool ends_in_warm_up(const RunLength& plan) {
  return plan.schedule.warmup_steps > 0 && plan.schedule.warmup_steps >= plan.total_steps;
}

}  // namespace lockstep::train
