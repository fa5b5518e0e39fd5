// The callbacks that Lockstep brings as parts, for callbacks.use.
#pragma once

#include <lockstep/train/parts.h>

#include <vector>

namespace lockstep::train {

CallbackPart early_stopping_part();
CallbackPart best_checkpoints_part();
CallbackPart weight_average_part();
CallbackPart learning_rate_log_part();
CallbackPart gradient_norms_part();
CallbackPart tensorboard_part();
CallbackPart profiler_part();

std::vector<CallbackPart> shipped_callbacks();

}  // namespace lockstep::train
