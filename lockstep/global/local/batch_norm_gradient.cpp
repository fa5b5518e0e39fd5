#include <lockstep/global/local/batch_norm_gradient.h>

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/TensorIterator.h>

#include <algorithm>
#include <array>

namespace lockstep::global {
namespace {

enum Operand : std::size_t { kOutput, kGradient, kInput, kMean, kFactor, kMeanGradient, kSlope, kOperands };

/// [1, C, 1, ...], of the input's dtype.
at::Tensor beside(const at::Tensor& per_channel, const at::Tensor& input) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(input.dim()), 1);
  sizes[1] = per_channel.numel();
  return per_channel.to(input.scalar_type()).view(sizes);
}

/// `stride` 1: the numbers of the channels lie as the pictures do (channels last); 0: all are of one channel. Known
/// when compiled, so that the loop can be vectorized.
template <typename Number, std::int64_t stride>
void along(const std::array<Number*, kOperands>& at, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t c = i * stride;
    at[kOutput][i] =
        at[kFactor][c] * (at[kGradient][i] - at[kMeanGradient][c] - at[kSlope][c] * (at[kInput][i] - at[kMean][c]));
  }
}

template <typename Number>
void one_by_one(char** data, const std::int64_t* strides, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::array<Number*, kOperands> at{};
    for (std::size_t k = 0; k < kOperands; ++k) at[k] = reinterpret_cast<Number*>(data[k] + i * strides[k]);
    along<Number, 0>(at, 1);
  }
}

template <typename Number>
void run_loop(char** data, const std::int64_t* strides, std::int64_t count) {
  const auto all = [&](Operand from, Operand to, std::int64_t stride) {
    return std::all_of(strides + from, strides + to, [&](std::int64_t each) { return each == stride; });
  };
  constexpr auto kDense = static_cast<std::int64_t>(sizeof(Number));
  std::array<Number*, kOperands> at{};
  for (std::size_t k = 0; k < kOperands; ++k) at[k] = reinterpret_cast<Number*>(data[k]);
  if (!all(kOutput, kMean, kDense)) return one_by_one<Number>(data, strides, count);
  if (all(kMean, kOperands, 0)) return along<Number, 0>(at, count);
  if (all(kMean, kOperands, kDense)) return along<Number, 1>(at, count);
  one_by_one<Number>(data, strides, count);
}

}  // namespace

at::Tensor gradient_of_input(const at::Tensor& gradient, const at::Tensor& input, const ChannelSums& sums) {
  auto output = at::empty_like(input, input.suggest_memory_format());
  auto iterator = at::TensorIteratorConfig()
                      .add_owned_output(output)
                      .add_owned_input(gradient)
                      .add_owned_input(input)
                      .add_owned_input(beside(sums.mean, input))
                      .add_owned_input(beside(sums.factor, input))
                      .add_owned_input(beside(sums.mean_gradient, input))
                      .add_owned_input(beside(sums.slope, input))
                      .build();
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, input.scalar_type(), "gradient_of_input", [&] {
    iterator.for_each(
        [](char** data, const std::int64_t* strides, std::int64_t count) { run_loop<scalar_t>(data, strides, count); });
  });
  return output;
}

}  // namespace lockstep::global
