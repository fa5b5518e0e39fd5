// The loss scaler: the factor of the loss before backward, and its change after steps with and without an overflow.
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep::train {

struct LossScalerConfig;

/// The state of the scaler between two steps: the same on all ranks, and part of a checkpoint. A plain value.
struct LossScale {
  double value = 0;  ///< the factor of the next step; 0 before the first step, and without a scaler
  std::int64_t steps_without_overflow = 0;  ///< since the last overflow or change
  std::int64_t skipped = 0;                 ///< steps of the run whose gradients overflowed
  std::int64_t skipped_in_a_row = 0;
};

/// The factor of the next step; nullopt without a scaler.
std::optional<double> loss_scale(const LossScalerConfig& config, const LossScale& state);

/// The state after a step that was made with the factor of `state`, as PyTorch's GradScaler.update() computes it. Error
/// (numeric) when the last 64 steps were all skipped: then smaller factors do not help.
LossScale after_step(const LossScalerConfig& config, const LossScale& state, bool overflow);

}  // namespace lockstep::train
