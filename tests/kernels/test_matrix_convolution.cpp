#include <lockstep/kernels/matrix_convolution.h>

#include <ATen/NativeFunctions.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <random>

namespace lockstep::kernels {
namespace {

constexpr auto kLast = at::MemoryFormat::ChannelsLast;

struct Case {
  std::int64_t pictures, inputs, outputs, height, width, kernel_height, kernel_width;
  std::array<std::int64_t, 2> stride{1, 1}, padding{0, 0}, dilation{1, 1};
  bool with_bias = false;

  ConvolutionOptions options() const { return {stride, padding, dilation}; }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.pictures << "x" << c.inputs << "x" << c.height << "x" << c.width << " -> " << c.outputs << ", kernel "
             << c.kernel_height << "x" << c.kernel_width << ", stride " << c.stride[0] << "," << c.stride[1]
             << ", padding " << c.padding[0] << "," << c.padding[1] << ", dilation " << c.dilation[0] << ","
             << c.dilation[1];
}

struct Tensors {
  at::Tensor input, weight, bias;
};

Tensors tensors_of(const Case& c, at::ScalarType dtype = at::kDouble) {
  const auto options = at::TensorOptions(dtype);
  return {at::randn({c.pictures, c.inputs, c.height, c.width}, options).contiguous(kLast),
          at::randn({c.outputs, c.inputs, c.kernel_height, c.kernel_width}, options).contiguous(kLast),
          c.with_bias ? at::randn({c.outputs}, options) : at::Tensor()};
}

/// Against libtorch's own kernels: the results and the three gradients.
void compare(const Case& c, at::ScalarType dtype = at::kDouble) {
  SCOPED_TRACE(::testing::PrintToString(c));
  const at::AutoDispatchBelowADInplaceOrView as_kernels_are_called;
  const double close = dtype == at::kDouble ? 1e-10 : 1e-3;  // sums of thousands of products
  const auto [input, weight, bias] = tensors_of(c, dtype);
  ASSERT_TRUE(is_faster_as_products(input, weight, c.options()));
  const auto expected = at::native::convolution(input, weight, bias, c.stride, c.padding, c.dilation, false, {0, 0}, 1);
  const auto result = convolution_by_products(input, weight, bias, c.options());
  ASSERT_EQ(result.sizes(), expected.sizes());
  EXPECT_TRUE(result.is_contiguous(kLast));
  EXPECT_TRUE(at::allclose(result, expected, close, close));

  const auto gradient = at::randn_like(expected);
  const auto theirs = at::native::convolution_backward(gradient, input, weight, at::IntArrayRef{c.outputs}, c.stride,
                                                       c.padding, c.dilation, false, {0, 0}, 1, {true, true, true});
  const auto ours = convolution_gradients_by_products(gradient, input, weight, c.options(), {true, true, true});
  EXPECT_TRUE(at::allclose(std::get<0>(ours), std::get<0>(theirs), close, close));
  EXPECT_TRUE(at::allclose(std::get<1>(ours), std::get<1>(theirs), close, close));
  EXPECT_TRUE(at::allclose(std::get<2>(ours), std::get<2>(theirs), close, close));
  EXPECT_TRUE(std::get<1>(ours).is_contiguous(kLast));
}

TEST(MatrixConvolution, EqualsLibtorchOnTheLastStagesOfResNets) {
  compare({4, 512, 128, 2, 2, 1, 1});
  compare({8, 256, 512, 4, 4, 1, 1, {2, 2}});
  compare({8, 128, 128, 2, 2, 3, 3, {1, 1}, {1, 1}});
  compare({8, 128, 128, 4, 4, 3, 3, {2, 2}, {1, 1}});
  compare({16, 128, 128, 1, 1, 3, 3, {1, 1}, {1, 1}});  // the centre of the kernel alone meets the picture
  compare({16, 128, 128, 2, 2, 3, 3, {2, 2}, {1, 1}});
  compare({2, 64, 256, 8, 6, 3, 3, {1, 1}, {1, 1}, {1, 1}, true});
  compare({3, 128, 128, 7, 7, 5, 5, {3, 2}, {2, 0}, {1, 1}, true});
}

TEST(MatrixConvolution, EqualsOneDnnInFloat32) {
  compare({8, 256, 256, 4, 4, 1, 1, {2, 2}}, at::kFloat);
  compare({8, 128, 128, 2, 2, 3, 3, {1, 1}, {1, 1}, {1, 1}, true}, at::kFloat);
}

TEST(MatrixConvolution, EqualsLibtorchOnRandomShapes) {
  std::mt19937 random(20);
  const auto from = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int done = 0; done < 60;) {
    Case c{from(1, 6),
           from(80, 160),
           from(80, 160),
           from(1, 6),
           from(1, 6),
           from(1, 4),
           from(1, 4),
           {from(1, 3), from(1, 3)},
           {from(0, 3), from(0, 3)},
           {from(1, 2), from(1, 2)},
           from(0, 1) == 1};
    // Neither libtorch nor we have outputs where the kernel does not fit.
    const bool fits = c.height + 2 * c.padding[0] > c.dilation[0] * (c.kernel_height - 1) &&
                      c.width + 2 * c.padding[1] > c.dilation[1] * (c.kernel_width - 1);
    if (!fits || c.inputs * c.outputs * c.kernel_height * c.kernel_width < 64 << 10) continue;
    const auto [input, weight, bias] = tensors_of(c);
    if (!is_faster_as_products(input, weight, c.options())) continue;
    compare(c);
    ++done;
  }
}

TEST(MatrixConvolution, TakesGradientsAsTheyCome) {
  const Case c{4, 256, 256, 2, 2, 1, 1};
  const auto [input, weight, bias] = tensors_of(c);
  const auto gradient = at::randn({1, 256, 1, 1}, input.options()).expand({4, 256, 2, 2});
  const auto spread = convolution_gradients_by_products(gradient, input, weight, c.options(), {true, true, false});
  const auto dense =
      convolution_gradients_by_products(gradient.contiguous(), input, weight, c.options(), {true, true, false});
  EXPECT_TRUE(at::equal(std::get<0>(spread), std::get<0>(dense)));
  EXPECT_TRUE(at::equal(std::get<1>(spread), std::get<1>(dense)));
  EXPECT_FALSE(std::get<2>(spread).defined());
}

TEST(MatrixConvolution, ComputesOnlyWhatIsWanted) {
  const Case c{4, 256, 256, 2, 2, 1, 1};
  const auto [input, weight, bias] = tensors_of(c);
  const auto gradient = at::randn({4, 256, 2, 2}, input.options());
  const auto first = convolution_gradients_by_products(gradient, input, weight, c.options(), {false, true, false});
  EXPECT_FALSE(std::get<0>(first).defined());
  EXPECT_TRUE(std::get<1>(first).defined());
  const auto second = convolution_gradients_by_products(gradient, input, weight, c.options(), {true, false, true});
  EXPECT_TRUE(std::get<0>(second).defined());
  EXPECT_FALSE(std::get<1>(second).defined());
  EXPECT_TRUE(at::allclose(std::get<2>(second), gradient.sum({0, 2, 3}), 1e-12, 1e-12));
}

TEST(MatrixConvolution, LeavesTheRestToLibtorch) {
  const Case good{8, 256, 256, 2, 2, 1, 1};
  const auto [input, weight, bias] = tensors_of(good, at::kFloat);
  const auto options = good.options();
  EXPECT_TRUE(is_faster_as_products(input, weight, options));
  auto transposed = options;
  transposed.transposed = true;
  EXPECT_FALSE(is_faster_as_products(input, weight, transposed));
  auto grouped = options;
  grouped.groups = 2;
  EXPECT_FALSE(is_faster_as_products(input, weight, grouped));
  EXPECT_FALSE(is_faster_as_products(input, weight.to(at::kDouble), options)) << "mixed";
  EXPECT_FALSE(is_faster_as_products(input.to(at::kBFloat16), weight.to(at::kBFloat16), options));
  EXPECT_FALSE(is_faster_as_products(input.contiguous(), weight.contiguous(), options)) << "libtorch's usual order";
  EXPECT_FALSE(is_faster_as_products(at::randn({65, 256, 2, 2}).contiguous(kLast), weight, options))
      << "many positions";
  EXPECT_FALSE(is_faster_as_products(at::randn({0, 256, 2, 2}).contiguous(kLast), weight, options)) << "none";
  EXPECT_FALSE(is_faster_as_products(input, at::randn({255, 256, 1, 1}).contiguous(kLast), options)) << "few weights";
  EXPECT_FALSE(is_faster_as_products(input, at::randn({512, 128, 1, 1}).contiguous(kLast), options))
      << "wrong channels";
  EXPECT_FALSE(is_faster_as_products(at::randn({8, 256, 64, 64}).contiguous(kLast), weight, {{32, 32}, {0, 0}, {1, 1}}))
      << "a large input";
  EXPECT_FALSE(is_faster_as_products(at::randn({1, 3, 64, 64}).contiguous(kLast),
                                     at::randn({768, 3, 16, 16}).contiguous(kLast), {{16, 16}, {0, 0}, {1, 1}}))
      << "many elements of few inputs";
  EXPECT_FALSE(is_faster_as_products(at::empty({2, 256, 0, 0}).contiguous(kLast), weight, {{1, 1}, {2, 2}, {1, 1}}))
      << "padding alone";
  EXPECT_FALSE(is_faster_as_products(at::randn({8, 256, 2}), at::randn({256, 256, 1}), options)) << "one-dimensional";
}

}  // namespace
}  // namespace lockstep::kernels
