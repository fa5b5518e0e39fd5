// The loss scaler: the factor of the loss before backward, and its change after steps with and without an overflow.
#pragma once

#include <lockstep/train/checkpoint/run_state.h>

#include <optional>

namespace lockstep::train {

/// The factor of the next step; nullopt without a scaler.
std::optional<double> loss_scale(const LossScalerConfig& config, const LossScale& state);

/// The state after a step that was made with the factor of `state`, as PyTorch's GradScaler.update() computes it. Error
/// (numeric) when the last 64 steps were all skipped: then smaller factors do not help.
LossScale after_step(const LossScalerConfig& config, const LossScale& state, bool overflow);

}  // namespace lockstep::train
