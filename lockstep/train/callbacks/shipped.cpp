// The list of the built-in callback parts, in which callbacks.use looks up its names.
#include <lockstep/train/callbacks/shipped.h>

namespace lockstep::train {

std::vector<CallbackPart> shipped_callbacks() {
  return {early_stopping_part(), best_checkpoints_part(), weight_average_part(), learning_rate_log_part(),
          gradient_norms_part(), tensorboard_part(),      profiler_part()};
}

}  // namespace lockstep::train
