// Convolutions of few positions with many weights, computed as matrix products.
#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

namespace lockstep::kernels {

/// The arguments of libtorch's convolution, except its tensors.
struct ConvolutionOptions {
  at::IntArrayRef stride;
  at::IntArrayRef padding;
  at::IntArrayRef dilation;
  bool transposed = false;
  std::int64_t groups = 1;
};

/// oneDNN reorders the weights three times in each training step: for the outputs, for the inputs' gradient, and back
/// from the weights' gradient. When a batch has few positions (small pictures, late layers), these copies take longer
/// than the arithmetic. Weights in channels_last memory are matrices already, one for each element of the kernel, so
/// matrix products need no copies of them.
///
/// Whether matrix products are faster. The conditions: two dimensions, CPU, all tensors float32 or all float64, one
/// group; weights in channels_last, or 1x1 kernels for an input in channels_last; at least 64 Ki weights, 64 input
/// channels, and 16 Ki weights per element of the kernel; 1 to 256 output positions (pictures * height * width), and at
/// most 1,024 input positions. The bounds were measured with ResNet-50 and ResNet-18 at 32x32 in float32
/// (docs/performance.md).
bool is_faster_as_products(const at::Tensor& input, const at::Tensor& weight, const ConvolutionOptions& options);

/// The convolution of `input` [N, inputs, H, W] with `weight` [outputs, inputs, height, width] and `bias` [outputs] or
/// undefined; the result is in channels_last. Requires is_faster_as_products(). Equal to libtorch's up to rounding, and
/// equal bit by bit from run to run with one thread. Thread-safe.
at::Tensor convolution_by_products(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                   const ConvolutionOptions& options);

/// The gradients of input, weight and bias, each undefined where `wanted` is false; the first two are in channels_last.
std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_gradients_by_products(const at::Tensor& output_gradient,
                                                                                 const at::Tensor& input,
                                                                                 const at::Tensor& weight,
                                                                                 const ConvolutionOptions& options,
                                                                                 std::array<bool, 3> wanted);

/// One axis of a convolution. All sizes are in elements; `padding` is on both sides.
struct ConvolutionAxis {
  std::int64_t input = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
};

/// The outputs [output_first, output_first + count) and the inputs input_first, input_first + stride, ... that one
/// element of the kernel connects; its other outputs would read padding. If count is 0, both first indices are 0.
struct AxisTap {
  std::int64_t output_first = 0;
  std::int64_t input_first = 0;
  std::int64_t count = 0;
};

/// The number of outputs of the axis; 0 when the kernel does not fit.
std::int64_t output_size(const ConvolutionAxis& axis);

/// The taps of an axis, one for each element of the kernel, in order.
std::vector<AxisTap> axis_taps(const ConvolutionAxis& axis);

}  // namespace lockstep::kernels
