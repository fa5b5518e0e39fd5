// The index ranges of a convolution along one axis: which inputs and outputs each element of its kernel connects.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::kernels {

/// One axis of a convolution. All in elements; `padding` on both sides.
struct ConvolutionAxis {
  std::int64_t input = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
};

/// An element of the kernel meets the outputs [output_first, output_first + count) and the inputs input_first,
/// input_first + stride, ...; the others of its outputs would read padding. Both firsts are 0 where count is.
struct AxisTap {
  std::int64_t output_first = 0;
  std::int64_t input_first = 0;
  std::int64_t count = 0;
};

/// How many outputs the axis has; 0 where the kernel does not fit.
std::int64_t output_size(const ConvolutionAxis& axis);

/// One for each element of the kernel, in order.
std::vector<AxisTap> axis_taps(const ConvolutionAxis& axis);

}  // namespace lockstep::kernels
