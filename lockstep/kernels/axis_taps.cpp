#include <lockstep/kernels/axis_taps.h>

#include <algorithm>

namespace lockstep::kernels {

std::int64_t output_size(const ConvolutionAxis& axis) {
  const auto room = axis.input + 2 * axis.padding - axis.dilation * (axis.kernel - 1) - 1;
  return room < 0 ? 0 : room / axis.stride + 1;
}

std::vector<AxisTap> axis_taps(const ConvolutionAxis& axis) {
  const auto outputs = output_size(axis);
  std::vector<AxisTap> taps(static_cast<std::size_t>(axis.kernel));
  for (std::int64_t k = 0; k < axis.kernel; ++k) {
    const auto shift = k * axis.dilation - axis.padding;  // output o reads input o * stride + shift
    const auto first = shift >= 0 ? 0 : (-shift + axis.stride - 1) / axis.stride;
    const auto past = shift >= axis.input ? 0 : std::min(outputs, (axis.input - 1 - shift) / axis.stride + 1);
    if (past > first) taps[static_cast<std::size_t>(k)] = {first, first * axis.stride + shift, past - first};
  }
  return taps;
}

}  // namespace lockstep::kernels
