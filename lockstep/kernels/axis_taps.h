// The index ranges of a convolution along one axis: which inputs and outputs each element of its kernel connects.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::kernels {

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
