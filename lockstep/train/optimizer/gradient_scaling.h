// The scaling of gradients: by a factor, and by their norm, without reading the norm's value on the host; whether they
// are finite; and the loss scaler, the factor of the loss before backward. Sparse gradients are coalesced before.
#pragma once

#include <lockstep/train/checkpoint/run_state.h>

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// Scales the gradients of `parameters` down so that the 2-norm of all of them together is at most `most`, with the
/// result of torch::nn::utils::clip_grad_norm_(). That function also returns the norm, so it cannot be traced for the
/// planner and interrupts the computation. Parameters without a gradient do not count. Global tensors: a collective.
void clip_gradients(const std::vector<at::Tensor>& parameters, double most);

/// Whether no gradient has a NaN or an infinity; of global tensors: no part of this rank. Reads one value on the host.
bool gradients_are_finite(const torch::nn::Module& module);

/// Multiplies the gradients of all parameters that have one.
void scale_gradients(const torch::nn::Module& module, double factor);

/// The factor of the next step; nullopt without a scaler.
std::optional<double> loss_scale(const LossScalerConfig& config, const LossScale& state);

/// The state after a step that was made with the factor of `state`, as PyTorch's GradScaler.update() computes it. Error
/// (numeric) when the last 64 steps were all skipped: then smaller factors do not help.
LossScale after_step(const LossScalerConfig& config, const LossScale& state, bool overflow);

}  // namespace lockstep::train
