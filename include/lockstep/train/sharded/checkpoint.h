// The state of an optimizer in sharded checkpoints of global tensors (state/checkpoint.h).
#pragma once

#include <lockstep/state/checkpoint.h>
#include <lockstep/train/named_tensors.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace lockstep::train {

/// Gives a new optimizer the state that was saved as tensors "<prefix><parameter>.<field>": save what optimizer_state
/// (optimizer.h) returns, and load it with this. Parameters without saved state get no state. Errors: those of
/// load_sharded, and data when the saved state belongs to a parameter that is not among `parameters`, or to another
/// kind of optimizer.
void load_sharded_optimizer(const std::filesystem::path& folder, const std::string& prefix,
                            torch::optim::Optimizer& optimizer,
                            const std::vector<std::pair<std::string, at::Tensor>>& parameters);

}  // namespace lockstep::train
