// Libtorch's kernels that update all parameters of an optimizer at once. Newer versions have them for CUDA devices and
// CPUs.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/version.h>

#define LOCKSTEP_FUSED_UPDATES (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4))

#if LOCKSTEP_FUSED_UPDATES
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#endif

namespace lockstep::compat {

inline constexpr bool kFusedUpdates = LOCKSTEP_FUSED_UPDATES;

struct SgdNumbers {
  double weight_decay, momentum, dampening;
  bool nesterov;
  bool first;  ///< momentum buffers get the gradients
};

struct AdamNumbers {
  double beta1, beta2, weight_decay, eps;
  bool decoupled;  ///< AdamW
};

/// `rate`: a tensor of one float on the parameters' device, or a number. Without momentum, `momenta` is empty.
template <typename Rate>
void fused_sgd([[maybe_unused]] at::TensorList parameters, [[maybe_unused]] at::TensorList gradients,
               [[maybe_unused]] at::TensorList momenta, [[maybe_unused]] const Rate& rate,
               [[maybe_unused]] const SgdNumbers& numbers) {
#if LOCKSTEP_FUSED_UPDATES
  at::_fused_sgd_(parameters, gradients, momenta, numbers.weight_decay, numbers.momentum, rate, numbers.dampening,
                  numbers.nesterov, /*maximize=*/false, numbers.first);
#endif
}

/// `steps`: for each parameter, a float with the number of this update, counted from 1.
template <typename Rate>
void fused_adam([[maybe_unused]] at::TensorList parameters, [[maybe_unused]] at::TensorList gradients,
                [[maybe_unused]] at::TensorList averages, [[maybe_unused]] at::TensorList squares,
                [[maybe_unused]] at::TensorList steps, [[maybe_unused]] const Rate& rate,
                [[maybe_unused]] const AdamNumbers& numbers) {
#if LOCKSTEP_FUSED_UPDATES
  const auto update = [&](const auto& kernel) {
    kernel(parameters, gradients, averages, squares, at::TensorList(), steps, rate, numbers.beta1, numbers.beta2,
           numbers.weight_decay, numbers.eps, /*amsgrad=*/false, /*maximize=*/false);
  };
  if (numbers.decoupled) {
    update([](auto&&... all) { at::_fused_adamw_(all...); });
  } else {
    update([](auto&&... all) { at::_fused_adam_(all...); });
  }
#endif
}

}  // namespace lockstep::compat

#undef LOCKSTEP_FUSED_UPDATES
