// The last step of a batch norm's backward, once the sums over the whole batch are known.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::global {

/// One number for each channel (dimension 1) of the pictures.
struct ChannelSums {
  at::Tensor mean;           ///< of the input
  at::Tensor factor;         ///< 1 / standard deviation, times the weight where there is one
  at::Tensor mean_gradient;  ///< of the gradient
  at::Tensor slope;          ///< mean of gradient times (input - mean), over the variance
};

/// factor * (gradient - mean_gradient - slope * (input - mean)), read and written once, in the input's memory format.
at::Tensor gradient_of_input(const at::Tensor& gradient, const at::Tensor& input, const ChannelSums& sums);

}  // namespace lockstep::global
