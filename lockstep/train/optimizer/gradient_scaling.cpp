// Gradient clipping by the global 2-norm with the factor kept on the device, a finiteness check by maximum norms, and
// the rules of loss scales as pure functions: smaller after an overflow, larger after a window.
#include <lockstep/base/error.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/mirrored/sparse_gradient.h>
#include <lockstep/train/config.h>
#include <lockstep/train/optimizer/gradient_scaling.h>

#include <torch/torch.h>

#include <cmath>
#include <limits>

namespace lockstep::train {
namespace {

constexpr double kNotZero = 1e-6;  ///< libtorch's, so that a run is the same with either

// 64 halvings reduce a dynamic scale of 65536 with factor 2 to 2^-48: then no finite gradient overflows.
constexpr std::int64_t kMostSkippedInARow = 64;

}  // namespace

void clip_gradients(const std::vector<at::Tensor>& parameters, double most) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> norms;
  for (const auto& each : parameters) {
    if (!each.grad().defined()) continue;
    gradients.push_back(mirrored::numbers_of(each.grad()));
    norms.push_back(gradients.back().norm(2));
  }
  if (norms.empty()) return;
  const auto total = norms.size() == 1 ? norms[0] : torch::stack(norms).norm(2);
  const auto factor = torch::clamp(most / (total + kNotZero), c10::nullopt, 1.0);
  for (auto& each : gradients) each.mul_(factor);
}

bool gradients_are_finite(const torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  // The largest absolute value of each: infinite or NaN as soon as one of its elements is.
  std::vector<at::Tensor> largest;
  for (const auto& parameter : module.parameters()) {
    const auto& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    const auto values = is_global(gradient) ? to_local(gradient) : mirrored::numbers_of(gradient);
    if (values.numel() > 0) largest.push_back(values.norm(std::numeric_limits<double>::infinity()).to(torch::kDouble));
  }
  return largest.empty() || std::isfinite(torch::stack(largest).sum().item<double>());
}

void scale_gradients(const torch::nn::Module& module, double factor) {
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : module.parameters()) {
    if (parameter.grad().defined()) mirrored::numbers_of(parameter.grad()).mul_(factor);
  }
}

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
