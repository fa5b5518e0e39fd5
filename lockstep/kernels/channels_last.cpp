// channels_last memory, and faster convolutions in it: matrix products, registered with libtorch.
#include <lockstep/kernels/tuning.h>

#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/kernels/matrix_convolution.h>

#include <ATen/NativeFunctions.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <atomic>
#include <sstream>

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

/// Makes libtorch compute CPU convolutions as matrix products where is_faster_as_products(), from now on and in the
/// whole process; with LOCKSTEP_MATRIX_CONVOLUTIONS=0 turns that off. Error(environment) for a value of that variable
/// other than 0 or 1. Thread-safe.
void use_products_for_convolutions() {
  products_are_used = find_integer(current_environment(), "LOCKSTEP_MATRIX_CONVOLUTIONS", 0, 1).value_or(1) == 1;
}

}  // namespace

}  // namespace lockstep::kernels

namespace lockstep {

void to_channels_last(torch::nn::Module& module) {
  kernels::use_products_for_convolutions();
  for (auto& parameter : module.parameters()) {
    if (parameter.dim() == 4) parameter.set_data(to_channels_last(parameter.data()));
  }
}

at::Tensor to_channels_last(const at::Tensor& pictures) {
  if (pictures.dim() != 4) {
    std::ostringstream sizes;
    sizes << pictures.sizes();
    fail(ErrorKind::invalid_argument, "channels_last",
         "pictures are (pictures, channels, height, width); this tensor is {}", sizes.str());
  }
  // Not contiguous(): it does not change tensors whose memory fits both formats, such as 1x1 kernels, so their strides
  // would still indicate the default format.
  return pictures.to(pictures.options(), /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::ChannelsLast);
}

}  // namespace lockstep
