// Convolutions of few positions with many weights, computed as matrix products.
#pragma once

#include <torch/types.h>

#include <array>
#include <tuple>

namespace lockstep::kernels {

/// A convolution's arguments but its tensors, as libtorch has them.
struct ConvolutionOptions {
  at::IntArrayRef stride;
  at::IntArrayRef padding;
  at::IntArrayRef dilation;
  bool transposed = false;
  std::int64_t groups = 1;
};

/// oneDNN copies the weights into an order of its own three times in each training step: for the outputs, for the
/// inputs' gradient, and back from the weights' gradient. Where a batch has few positions (small pictures, late layers)
/// these copies take longer than the arithmetic. Weights in channels_last are matrices as they lie, one for each
/// element of the kernel, so products of matrices need no copies of them.
///
/// Whether that is the faster way: two-dimensional, on the CPU, float32 or float64 throughout, one group; weights in
/// channels_last, or of 1x1 for an input that is; at least 64 Ki of them, 64 inputs, and 16 Ki of each element of the
/// kernel; 1 to 256 positions (pictures times outputs' height times width), and at most 1,024 of the input. The bounds
/// were measured with ResNet-50 and ResNet-18 at 32x32 in float32 (docs/performance.md).
bool is_faster_as_products(const at::Tensor& input, const at::Tensor& weight, const ConvolutionOptions& options);

/// `input` is (pictures, inputs, height, width), `weight` (outputs, inputs, height, width), `bias` (outputs) or
/// undefined; the result lies in channels_last. Requires is_faster_as_products(). Equal to libtorch's up to rounding,
/// and equal bit by bit from run to run with one thread. Thread-safe.
at::Tensor convolution_by_products(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                   const ConvolutionOptions& options);

/// The gradients of input, weight and bias, each undefined where `wanted` says false; the first two lie in
/// channels_last.
std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_gradients_by_products(const at::Tensor& output_gradient,
                                                                                 const at::Tensor& input,
                                                                                 const at::Tensor& weight,
                                                                                 const ConvolutionOptions& options,
                                                                                 std::array<bool, 3> wanted);

}  // namespace lockstep::kernels
