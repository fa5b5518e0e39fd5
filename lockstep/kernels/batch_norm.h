// Batch norm of a batch that is divided over ranks: the computation of one rank, and the statistics to exchange.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

// `input` is (pictures, channels, ...), on the CPU, of a floating dtype; a part may be without pictures. What is of
// channels is (channels), of any floating dtype, and float64 where it is a result. `weight` may be undefined.

/// Of a part of a batch, or of all of it, float64 [1 + 2 * channels]: the number of values of a channel, then for each
/// channel their mean, then for each the sum of the squares of their distances to it.
at::Tensor moments_of(const at::Tensor& input);

/// The moments of the whole, [1 + 2 * channels], from those of its parts, [parts, 1 + 2 * channels], without the
/// cancellation of a sum of squares: Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance".
at::Tensor joined_moments(const at::Tensor& parts);

struct BatchStatistics {
  at::Tensor mean;
  at::Tensor inverse_deviation;  ///< 1 / sqrt(variance + eps), of the variance over the number of values
  at::Tensor sample_variance;    ///< over one less, which running statistics take
};

BatchStatistics statistics_from(const at::Tensor& moments, double eps);

/// running = (1 - momentum) * running + momentum * now, in place; nothing where it is undefined. As libtorch's own,
/// autograd does not see it.
void update_running(const at::Tensor& running, const at::Tensor& now, double momentum);

/// The batch norm itself, (input - mean) * inverse_deviation * weight + bias, in the input's dtype and memory format.
/// `bias` may be undefined.
at::Tensor normalized(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& mean,
                      const at::Tensor& inverse_deviation);

/// [2, channels]: for each channel the sums over this part of gradient times (input - mean) * inverse_deviation, and of
/// the gradient. Summed over all parts they are the gradients of weight and bias.
at::Tensor gradient_sums(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                         const at::Tensor& inverse_deviation);

/// The gradient of this part of the input, in its dtype and memory format. `sums` are those of all parts, `values` how
/// many values a channel has in all of them.
at::Tensor gradient_of_input(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
                             const at::Tensor& mean, const at::Tensor& inverse_deviation, const at::Tensor& sums,
                             double values);

}  // namespace lockstep::kernels
