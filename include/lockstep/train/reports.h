// Reports of steps, evaluations and epochs, as values for callbacks.
#pragma once

#include <lockstep/train/evaluation.h>

#include <cstdint>
#include <optional>

namespace lockstep::train {

/// One optimizer step. Epochs and steps count from 1.
struct StepReport {
  std::int64_t epoch = 0;
  std::int64_t epochs = 0;  ///< of the whole run, the last one perhaps cut short
  std::int64_t step_in_epoch = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t step = 0;  ///< of the whole run, resumed parts included
  std::int64_t total_steps = 0;
  std::optional<double> local_loss =
      std::nullopt;  ///< mean over this rank's samples; none when it had no sample in this step
  std::optional<double> loss = std::nullopt;  ///< mean over all ranks' samples; only at steps where the metrics want it
  double lr = 0;
  std::int64_t samples = 0;  ///< samples of all ranks
  double seconds = 0;        ///< waiting for data included
};

struct EpochReport {
  std::int64_t epoch = 0;
  std::int64_t epochs = 0;
  std::int64_t steps = 0;    ///< made in this epoch by this process, so fewer after a resume
  std::int64_t samples = 0;  ///< samples of all ranks in those steps
  double seconds = 0;        ///< of those steps: no evaluation, no checkpoint
};

}  // namespace lockstep::train
