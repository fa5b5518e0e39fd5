// The update of libtorch's optimizers in a few kernels instead of thousands: libtorch's `step()` launches several
// kernels for each parameter.
//
//   lockstep::update(optimizer);      // for optimizer.step()
#pragma once

#include <optional>
#include <string>

namespace torch::optim {
class Optimizer;
}

namespace lockstep {

/// Why `update` calls step(): the optimizer is not SGD, Adam or AdamW, or uses amsgrad; a parameter is not on a
/// CUDA device, no float, or not dense in memory; libtorch is older than 2.4. nullopt where it launches a few kernels.
std::optional<std::string> why_no_fused_update(const torch::optim::Optimizer& optimizer);

/// Updates all parameters that have a gradient, as optimizer.step() does, with the same state: momentum, averages and
/// counts of steps, which are saved and loaded as usual. Numbers equal those of step() up to the last bits of float32,
/// as these kernels round less often. Calls step() where why_no_fused_update gives a reason, and for sparse gradients.
/// Errors of libtorch. One thread at a time.
void update(torch::optim::Optimizer& optimizer);

}  // namespace lockstep
