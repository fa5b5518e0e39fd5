#include <lockstep/kernels/matrix_convolution.h>

#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace lockstep::kernels {
namespace {

/// Which input each (element, output) reads, one by one; those that read padding are missing.
std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> one_by_one(const ConvolutionAxis& axis) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> reads;
  for (std::int64_t element = 0; element < axis.kernel; ++element) {
    for (std::int64_t output = 0; output < output_size(axis); ++output) {
      const auto input = output * axis.stride + element * axis.dilation - axis.padding;
      if (input >= 0 && input < axis.input) reads[{element, output}] = input;
    }
  }
  return reads;
}

TEST(AxisTaps, JoinWhatEachElementReads) {
  int axes = 0;
  for (std::int64_t input = 1; input <= 7; ++input) {
    for (std::int64_t kernel = 1; kernel <= 5; ++kernel) {
      for (std::int64_t stride = 1; stride <= 3; ++stride) {
        for (std::int64_t padding = 0; padding <= 4; ++padding) {
          for (std::int64_t dilation = 1; dilation <= 3; ++dilation, ++axes) {
            const ConvolutionAxis axis{input, kernel, stride, padding, dilation};
            std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> reads;
            const auto taps = axis_taps(axis);
            ASSERT_EQ(taps.size(), static_cast<std::size_t>(kernel));
            for (std::int64_t element = 0; element < kernel; ++element) {
              const auto& tap = taps[static_cast<std::size_t>(element)];
              for (std::int64_t i = 0; i < tap.count; ++i) {
                reads[{element, tap.output_first + i}] = tap.input_first + i * stride;
              }
            }
            ASSERT_EQ(reads, one_by_one(axis))
                << input << ' ' << kernel << ' ' << stride << ' ' << padding << ' ' << dilation;
          }
        }
      }
    }
  }
  EXPECT_EQ(axes, 7 * 5 * 3 * 5 * 3);
}

TEST(AxisTaps, AKernelThatDoesNotFitHasNoOutputs) {
  EXPECT_EQ(output_size({.input = 2, .kernel = 3}), 0);
  EXPECT_EQ(output_size({.input = 3, .kernel = 3}), 1);
  EXPECT_EQ(output_size({.input = 8, .kernel = 3, .stride = 2, .padding = 1}), 4);
}

}  // namespace
}  // namespace lockstep::kernels
