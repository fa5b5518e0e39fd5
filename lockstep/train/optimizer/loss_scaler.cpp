// The rules of static and dynamic loss scales as pure functions: smaller after an overflow, larger after a window.
#include <lockstep/base/error.h>
#include <lockstep/train/config.h>
#include <lockstep/train/optimizer/loss_scaler.h>

namespace lockstep::train {
namespace {

// 64 halvings reduce a dynamic scale of 65536 with factor 2 to 2^-48: then no finite gradient overflows.
constexpr std::int64_t kMostSkippedInARow = 64;

}  // namespace

std::optional<double> loss_scale(const LossScalerConfig& config, const LossScale& state) {
  if (config.type == "none") return std::nullopt;
  return config.type == "dynamic" && state.value > 0 ? state.value : config.loss_scale;
}

LossScale after_step(const LossScalerConfig& config, const LossScale& state, bool overflow) {
  if (config.type == "none") return state;
  LossScale next = state;
  next.value = *loss_scale(config, state);
  const bool is_dynamic = config.type == "dynamic";
  if (overflow) {
    ++next.skipped;
    ++next.skipped_in_a_row;
    next.steps_without_overflow = 0;
    if (is_dynamic) next.value /= config.scale_factor;
    if (next.skipped_in_a_row >= kMostSkippedInARow) {
      fail(ErrorKind::numeric, "train",
           "the last {} steps were skipped because gradients were NaN or infinite, with a loss scale of {} in the end; "
           "{}",
           next.skipped_in_a_row, next.value,
           is_dynamic ? "smaller scales do not help: a lower optimizer.lr, a warm-up or train.clip_norm may"
                      : "set loss_scaler.type to dynamic, or a smaller loss_scaler.loss_scale");
    }
    return next;
  }
  next.skipped_in_a_row = 0;
  ++next.steps_without_overflow;
  if (is_dynamic && next.steps_without_overflow >= config.scale_window) {
    next.value *= config.scale_factor;
    next.steps_without_overflow = 0;
  }
  return next;
}

}  // namespace lockstep::train
