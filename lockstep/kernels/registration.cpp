#include <lockstep/base/environment.h>
#include <lockstep/kernels/matrix_convolution.h>
#include <lockstep/kernels/registration.h>

#include <ATen/NativeFunctions.h>
#include <torch/library.h>

#include <atomic>

namespace lockstep::kernels {
namespace {

std::atomic<bool> products_are_used{false};

/// Whether libtorch accepts the bias; invalid ones are left to libtorch's own error message.
bool is_bias_for(const at::Tensor& weight, const at::Tensor& bias) {
  return !bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0) &&
                             bias.scalar_type() == weight.scalar_type() && bias.device() == weight.device());
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const c10::optional<at::Tensor>& bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, std::int64_t groups) {
  const ConvolutionOptions options{stride, padding, dilation, transposed, groups};
  const auto added = bias.value_or(at::Tensor());
  if (products_are_used && is_bias_for(weight, added) && is_faster_as_products(input, weight, options)) {
    return convolution_by_products(input, weight, added, options);
  }
  return at::native::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight, at::OptionalIntArrayRef bias_sizes,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, std::int64_t groups, std::array<bool, 3> wanted) {
  const ConvolutionOptions options{stride, padding, dilation, transposed, groups};
  if (products_are_used && is_faster_as_products(input, weight, options)) {
    return convolution_gradients_by_products(gradient, input, weight, options, wanted);
  }
  return at::native::convolution_backward(gradient, input, weight, bias_sizes, stride, padding, dilation, transposed,
                                          output_padding, groups, wanted);
}

// libtorch registers both operators for all devices together; a kernel for the CPU key has priority. Registered when
// the library is loaded, because the dispatcher must not change while another thread uses it.
TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("convolution", TORCH_FN(convolution));
  library.impl("convolution_backward", TORCH_FN(convolution_backward));
}

}  // namespace

void use_products_for_convolutions() {
  products_are_used = find_integer(current_environment(), "LOCKSTEP_MATRIX_CONVOLUTIONS", 0, 1).value_or(1) == 1;
}

}  // namespace lockstep::kernels
