#include <lockstep/base/environment.h>
#include <lockstep/kernels/matrix_convolution.h>
#include <lockstep/kernels/registration.h>

#include <ATen/NativeFunctions.h>
#include <torch/library.h>

namespace lockstep::kernels {
namespace {

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const c10::optional<at::Tensor>& bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, std::int64_t groups) {
  const ConvolutionOptions options{stride, padding, dilation, transposed, groups};
  if (is_faster_as_products(input, weight, options)) {
    return convolution_by_products(input, weight, bias.value_or(at::Tensor()), options);
  }
  return at::native::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight, at::OptionalIntArrayRef bias_sizes,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, std::int64_t groups, std::array<bool, 3> wanted) {
  const ConvolutionOptions options{stride, padding, dilation, transposed, groups};
  if (is_faster_as_products(input, weight, options)) {
    return convolution_gradients_by_products(gradient, input, weight, options, wanted);
  }
  return at::native::convolution_backward(gradient, input, weight, bias_sizes, stride, padding, dilation, transposed,
                                          output_padding, groups, wanted);
}

/// libtorch has both for every device; a kernel for the CPU comes before those. Lives as long as the process: libtorch
/// may call it until the end.
struct Registrations {
  torch::Library aten{torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__};

  Registrations() {
    if (find_integer(current_environment(), "LOCKSTEP_MATRIX_CONVOLUTIONS", 0, 1) == 0) return;
    aten.impl("convolution", TORCH_FN(convolution));
    aten.impl("convolution_backward", TORCH_FN(convolution_backward));
  }
};

}  // namespace

void register_kernels() { static const Registrations registrations; }

}  // namespace lockstep::kernels
