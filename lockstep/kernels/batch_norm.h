// Batch norm of a batch that is divided over ranks: the computation of one rank, and the numbers to exchange.
#pragma once

#include <lockstep/base/instruction_sets.h>
#include <lockstep/kernels/batch_norm_loops.h>

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::kernels {

/// A part of a batch, normalized by the statistics of the whole batch.
struct NormalizedPart {
  at::Tensor output;  ///< (input - mean) * inverse_deviation * weight + bias, in the input's dtype and memory format
  at::Tensor mean;
  at::Tensor inverse_deviation;  ///< 1 / sqrt(variance + eps), with the biased variance (divided by n)
  at::Tensor sample_variance;    ///< unbiased variance (divided by n - 1), for running statistics
};

/// The steps of a rank on one kind of device. Forward: moments(); gather them from all parts, and joined();
/// normalized(). Backward: gradient_sums(); add them over all parts; gradient_of_input().
///
/// `input` is [pictures, channels, ...], of a floating dtype; a rank's part may have no pictures. Per-channel arguments
/// are [channels], of any floating dtype; per-channel results are float64. `weight` and `bias` may be undefined.
struct BatchNorm {
  /// The moments of a batch or of a part of it, float64 [1 + 2 * channels]: the number of values per channel, then the
  /// mean of each channel, then the sum of squared deviations of each channel.
  at::Tensor (*moments)(const at::Tensor& input);

  /// The moments of the whole batch, [1 + 2 * channels], from those of its parts, [parts, 1 + 2 * channels], without
  /// the numerical cancellation of a sum of squares: Chan, Golub and LeVeque 1983, "Algorithms for computing the sample
  /// variance".
  at::Tensor (*joined)(const at::Tensor& parts);

  /// The batch norm itself, by the moments of the whole batch.
  NormalizedPart (*normalized)(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                               const at::Tensor& moments, double eps);

  /// running = (1 - momentum) * running + momentum * now, in place. Autograd does not record it, as in libtorch.
  void (*update_running)(const at::Tensor& running, const at::Tensor& now, double momentum);

  /// For each channel the sum over this part of gradient * (input - mean) * inverse_deviation, and the sum of the
  /// gradient: [2, channels]. Summed over all parts they are the gradients of weight and bias.
  at::Tensor (*gradient_sums)(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                              const at::Tensor& inverse_deviation);

  /// The gradient of this part of the input, in its dtype and memory format. `sums` are the gradient_sums() of all
  /// parts together, `values` is the number of values per channel in all parts.
  at::Tensor (*gradient_of_input)(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
                                  const at::Tensor& mean, const at::Tensor& inverse_deviation, const at::Tensor& sums,
                                  double values);
};

extern const BatchNorm batch_norm_by_loops;      ///< custom loops, for tensors on the CPU
extern const BatchNorm batch_norm_by_operators;  ///< libtorch's operators, on any device, without a wait for it

/// The faster one for the device of `input`.
const BatchNorm& batch_norm_for(const at::Tensor& input);

/// The loops of all instruction sets that this machine supports, slowest first.
const std::vector<InstructionSet<BatchNormTable>>& batch_norm_sets();

}  // namespace lockstep::kernels
