// Gradient clipping by the global 2-norm with the factor kept on the device, and a finiteness check by maximum norms.
#include <lockstep/global/global_tensor.h>
#include <lockstep/mirrored/sparse_gradient.h>
#include <lockstep/train/optimizer/clip_gradients.h>

#include <torch/torch.h>

#include <cmath>
#include <limits>

namespace lockstep::train {
namespace {

constexpr double kNotZero = 1e-6;  ///< libtorch's, so that a run is the same with either

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

}  // namespace lockstep::train
