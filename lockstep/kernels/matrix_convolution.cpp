// channels_last memory, and convolutions in it as a sum of matrix products, one for each element of the kernel, which
// are registered with libtorch.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/kernels/matrix_convolution.h>
#include <lockstep/kernels/tuning.h>

#include <ATen/NativeFunctions.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <sstream>
#include <vector>

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

namespace {

constexpr std::int64_t kMostPositions = 256;
constexpr std::int64_t kMostInputPositions = 1024;
constexpr std::int64_t kFewestWeights = 64 << 10;
constexpr std::int64_t kFewestWeightsOfElement = 16 << 10;  // smallest size of a matrix that is worth a matrix product
constexpr std::int64_t kFewestInputs = 64;

// All shapes below are in the order of channels_last memory: [pictures, height, width, channels].
constexpr std::array<std::int64_t, 4> kChannelsInFront{0, 3, 1, 2};

at::Tensor channels_behind(const at::Tensor& tensor) {
  return tensor.contiguous(at::MemoryFormat::ChannelsLast).permute({0, 2, 3, 1});
}

at::Tensor as_matrix(const at::Tensor& tensor) { return tensor.reshape({-1, tensor.size(3)}); }

ConvolutionAxis axis(const at::Tensor& input, const at::Tensor& weight, const ConvolutionOptions& options, int index) {
  const auto i = static_cast<std::size_t>(index);
  return {input.size(2 + index), weight.size(2 + index), options.stride[i], options.padding[i], options.dilation[i]};
}

/// Whether a tap with `count`, `first` and `stride` covers an axis of `size` completely.
bool is_whole(std::int64_t first, std::int64_t count, std::int64_t stride, std::int64_t size) {
  return first == 0 && count == size && (stride == 1 || count == 1);
}

/// One element of the kernel: its position, and the inputs and outputs that it connects.
struct Tap {
  std::int64_t row = 0;
  std::int64_t column = 0;
  AxisTap vertical;
  AxisTap horizontal;

  bool joins_any() const { return vertical.count > 0 && horizontal.count > 0; }

  at::Tensor outputs_of(const at::Tensor& tensor) const {
    return tensor.narrow(1, vertical.output_first, vertical.count).narrow(2, horizontal.output_first, horizontal.count);
  }

  at::Tensor inputs_of(const at::Tensor& tensor, at::IntArrayRef stride) const {
    return tensor.slice(1, vertical.input_first, vertical.input_first + (vertical.count - 1) * stride[0] + 1, stride[0])
        .slice(2, horizontal.input_first, horizontal.input_first + (horizontal.count - 1) * stride[1] + 1, stride[1]);
  }

  bool has_all_outputs(const at::Tensor& tensor) const {
    return is_whole(vertical.output_first, vertical.count, 1, tensor.size(1)) &&
           is_whole(horizontal.output_first, horizontal.count, 1, tensor.size(2));
  }

  bool has_all_inputs(const at::Tensor& tensor, at::IntArrayRef stride) const {
    return is_whole(vertical.input_first, vertical.count, stride[0], tensor.size(1)) &&
           is_whole(horizontal.input_first, horizontal.count, stride[1], tensor.size(2));
  }

  /// The weights of this element, [outputs, inputs], a view.
  at::Tensor matrix_of(const at::Tensor& weights) const { return weights.select(1, row).select(1, column); }
};

std::vector<Tap> taps_of(const at::Tensor& input, const at::Tensor& weight, const ConvolutionOptions& options) {
  const auto vertical = axis_taps(axis(input, weight, options, 0));
  const auto horizontal = axis_taps(axis(input, weight, options, 1));
  std::vector<Tap> taps;
  taps.reserve(vertical.size() * horizontal.size());
  for (std::size_t row = 0; row < vertical.size(); ++row) {
    for (std::size_t column = 0; column < horizontal.size(); ++column) {
      taps.push_back(
          {static_cast<std::int64_t>(row), static_cast<std::int64_t>(column), vertical[row], horizontal[column]});
    }
  }
  return taps;
}

/// A sum of matrix products, each of which covers the whole tensor or a part of it. If the first term covers the whole
/// tensor, it is written directly. Otherwise the tensor is zeroed first, and terms are added.
class PositionSums {
 public:
  PositionSums(const std::vector<std::int64_t>& sizes, const at::TensorOptions& options)
      : total_(at::empty(sizes, options)) {}

  const at::Tensor& tensor() const { return total_; }

  void add_to_all(const at::Tensor& left, const at::Tensor& right) {
    auto whole = as_matrix(total_);
    if (begun_) {
      whole.addmm_(left, right);
    } else {
      at::mm_out(whole, left, right);
      begun_ = true;
    }
  }

  void add_to(at::Tensor part, const at::Tensor& left, const at::Tensor& right) {
    begin();
    part.add_(at::mm(left, right).view(part.sizes()));
  }

  const at::Tensor& finish() {
    begin();
    return total_;
  }

 private:
  void begin() {
    if (!begun_) total_.zero_();
    begun_ = true;
  }

  at::Tensor total_;
  bool begun_ = false;
};

}  // namespace

bool is_faster_as_products(const at::Tensor& input, const at::Tensor& weight, const ConvolutionOptions& options) {
  const auto usable = [](const at::Tensor& tensor) {
    return tensor.dim() == 4 && tensor.device().is_cpu() && tensor.layout() == at::kStrided;
  };
  if (options.transposed || options.groups != 1 || !usable(input) || !usable(weight)) return false;
  if (input.scalar_type() != weight.scalar_type()) return false;
  if (input.scalar_type() != at::kFloat && input.scalar_type() != at::kDouble) return false;
  if (input.size(1) != weight.size(1) || input.size(1) < kFewestInputs) return false;
  if (weight.numel() < kFewestWeights || weight.size(0) * weight.size(1) < kFewestWeightsOfElement) return false;
  const auto input_positions = input.size(0) * input.size(2) * input.size(3);
  if (input_positions == 0 || input_positions > kMostInputPositions) return false;
  // The memory format of the result is that which libtorch chooses.
  const auto last = at::MemoryFormat::ChannelsLast;
  if (input.suggest_memory_format() != last && weight.suggest_memory_format() != last) return false;
  if (!weight.is_contiguous(last)) return false;
  if (options.stride.size() != 2 || options.padding.size() != 2 || options.dilation.size() != 2) return false;
  auto positions = input.size(0);
  for (int i = 0; i < 2; ++i) {
    const auto of_axis = axis(input, weight, options, i);
    if (of_axis.stride < 1 || of_axis.padding < 0 || of_axis.dilation < 1) return false;
    positions *= output_size(of_axis);
  }
  return positions > 0 && positions <= kMostPositions;
}

at::Tensor convolution_by_products(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                   const ConvolutionOptions& options) {
  const c10::impl::ExcludeDispatchKeyGuard as_they_are(c10::autocast_dispatch_keyset);
  const auto inputs = channels_behind(input);
  const auto weights = channels_behind(weight);
  PositionSums outputs({input.size(0), output_size(axis(input, weight, options, 0)),
                        output_size(axis(input, weight, options, 1)), weight.size(0)},
                       input.options());
  for (const auto& tap : taps_of(input, weight, options)) {
    if (!tap.joins_any()) continue;
    const auto met = as_matrix(tap.inputs_of(inputs, options.stride));
    const auto matrix = tap.matrix_of(weights).t();
    if (tap.has_all_outputs(outputs.tensor())) {
      outputs.add_to_all(met, matrix);
    } else {
      outputs.add_to(tap.outputs_of(outputs.tensor()), met, matrix);
    }
  }
  auto result = outputs.finish();
  if (bias.defined()) result.add_(bias);
  return result.permute(kChannelsInFront);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_gradients_by_products(const at::Tensor& output_gradient,
                                                                                 const at::Tensor& input,
                                                                                 const at::Tensor& weight,
                                                                                 const ConvolutionOptions& options,
                                                                                 std::array<bool, 3> wanted) {
  const c10::impl::ExcludeDispatchKeyGuard as_they_are(c10::autocast_dispatch_keyset);
  const auto gradient = channels_behind(output_gradient);
  const auto weights = channels_behind(weight);
  at::Tensor inputs;
  at::Tensor of_weights;
  if (wanted[1]) {
    inputs = channels_behind(input);
    of_weights = at::empty(weights.sizes(), weight.options());
  }
  std::optional<PositionSums> of_inputs;
  if (wanted[0])
    of_inputs.emplace(std::vector{input.size(0), input.size(2), input.size(3), input.size(1)}, input.options());

  for (const auto& tap : taps_of(input, weight, options)) {
    if (!tap.joins_any()) {
      if (wanted[1]) tap.matrix_of(of_weights).zero_();
      continue;
    }
    const auto arriving = as_matrix(tap.outputs_of(gradient));
    if (wanted[1]) {
      auto matrix = tap.matrix_of(of_weights);
      at::mm_out(matrix, arriving.t(), as_matrix(tap.inputs_of(inputs, options.stride)));
    }
    if (!of_inputs) continue;
    if (tap.has_all_inputs(of_inputs->tensor(), options.stride)) {
      of_inputs->add_to_all(arriving, tap.matrix_of(weights));
    } else {
      of_inputs->add_to(tap.inputs_of(of_inputs->tensor(), options.stride), arriving, tap.matrix_of(weights));
    }
  }
  return {of_inputs ? of_inputs->finish().permute(kChannelsInFront) : at::Tensor(),
          wanted[1] ? of_weights.permute(kChannelsInFront) : at::Tensor(),
          wanted[2] ? gradient.sum(at::IntArrayRef{0, 1, 2}) : at::Tensor()};
}

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
