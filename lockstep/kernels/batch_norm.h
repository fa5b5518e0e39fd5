// Batch norm of a batch that is divided over ranks: the computation of one rank, and the statistics to exchange.
#pragma once

#include <lockstep/base/instruction_sets.h>
#include <lockstep/kernels/batch_norm_loops.h>

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::kernels {

// In all functions, `input` is [pictures, channels, ...], of a floating dtype; a rank's part may have no pictures. On
// the CPU these are custom loops, elsewhere operators of libtorch (batch_norm_anywhere.h). Per-channel arguments
// are [channels], of any floating dtype; per-channel results are float64. `weight` may be undefined.

/// The moments of a batch or of a part of it, float64 [1 + 2 * channels]: the number of values per channel, then the
/// mean of each channel, then the sum of squared deviations of each channel.
at::Tensor moments_of(const at::Tensor& input);

/// The moments of the whole batch, [1 + 2 * channels], from those of its parts, [parts, 1 + 2 * channels], without the
/// numerical cancellation of a sum of squares: Chan, Golub and LeVeque 1983, "Algorithms for computing the sample
/// variance".
at::Tensor joined_moments(const at::Tensor& parts);

struct BatchStatistics {
  at::Tensor mean;
  at::Tensor inverse_deviation;  ///< 1 / sqrt(variance + eps), with the biased variance (divided by n)
  at::Tensor sample_variance;    ///< unbiased variance (divided by n - 1), for running statistics
};

BatchStatistics statistics_from(const at::Tensor& moments, double eps);

/// running = (1 - momentum) * running + momentum * now, in place; does nothing if `running` is undefined. Autograd does
/// not record it, as in libtorch.
void update_running(const at::Tensor& running, const at::Tensor& now, double momentum);

/// The batch norm itself, (input - mean) * inverse_deviation * weight + bias, in the input's dtype and memory format.
/// `bias` may be undefined.
at::Tensor normalized(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& mean,
                      const at::Tensor& inverse_deviation);

/// For each channel the sum over this part of gradient * (input - mean) * inverse_deviation, and the sum of the
/// gradient: [2, channels]. Summed over all parts they are the gradients of weight and bias.
at::Tensor gradient_sums(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                         const at::Tensor& inverse_deviation);

/// The gradient of this part of the input, in its dtype and memory format. `sums` are the gradient_sums() of all parts
/// together, `values` is the number of values per channel in all parts.
at::Tensor gradient_of_input(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
                             const at::Tensor& mean, const at::Tensor& inverse_deviation, const at::Tensor& sums,
                             double values);

/// The loops of all instruction sets that this machine supports, slowest first.
const std::vector<InstructionSet<BatchNormTable>>& batch_norm_sets();

/// The fastest loops for float or double.
template <typename Number>
const BatchNormLoops<Number>& batch_norm_loops();

}  // namespace lockstep::kernels
