// Batch norm by libtorch's operators, on any device.
#include <lockstep/kernels/batch_norm.h>

#include <ATen/ATen.h>

#include <cstdint>
#include <tuple>

namespace lockstep::kernels {
namespace operators {
namespace {

std::vector<std::int64_t> all_but_channels(const at::Tensor& tensor) {
  std::vector<std::int64_t> dims;
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (dim != 1) dims.push_back(dim);
  }
  return dims;
}

/// float16 and bfloat16 are converted to float32.
at::Tensor wide(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}

/// [channels] to [1, channels, 1, ...], as it is combined with `batch`.
at::Tensor across(const at::Tensor& of_channels, const at::Tensor& batch) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(batch.dim()), 1);
  sizes.at(1) = of_channels.numel();
  return of_channels.to(batch.scalar_type()).view(sizes);
}

at::Tensor as_double(const at::Tensor& tensor) { return tensor.to(at::kDouble); }

at::Tensor factors_of(const at::Tensor& inverse_deviation, const at::Tensor& weight) {
  return weight.defined() ? as_double(inverse_deviation) * as_double(weight) : as_double(inverse_deviation);
}

/// The parts of moments, along their last dimension.
struct Moments {
  at::Tensor count, mean, squares;
};

Moments split(const at::Tensor& moments) {
  const auto channels = (moments.size(-1) - 1) / 2;
  return {moments.narrow(-1, 0, 1), moments.narrow(-1, 1, channels), moments.narrow(-1, 1 + channels, channels)};
}

at::Tensor moments(const at::Tensor& input) {
  const auto options = input.options().dtype(at::kDouble).memory_format(c10::nullopt);
  const auto channels = input.size(1);
  if (input.numel() == 0) return at::zeros({1 + 2 * channels}, options);
  const auto count = static_cast<double>(input.numel() / channels);
  const auto dims = all_but_channels(input);
  const auto [variance, mean] = at::var_mean(wide(input), at::OptionalIntArrayRef(dims), /*unbiased=*/false,
                                             /*keepdim=*/false);
  return at::cat({at::full({1}, count, options), as_double(mean), as_double(variance) * count});
}

at::Tensor joined(const at::Tensor& parts) {
  const auto [counts, means, squares] = split(parts);
  const auto count = counts.sum(0);
  const auto mean = (counts * means).sum(0) / count.clamp_min(1);
  const auto distances = means - mean;
  return at::cat({count, mean, (squares + counts * distances * distances).sum(0)});
}

NormalizedPart normalized(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                          const at::Tensor& moments, double eps) {
  const auto [count, mean, squares] = split(moments);
  const auto inverse_deviation = (squares / count + eps).rsqrt();
  const auto x = wide(input);
  auto output = (x - across(mean, x)).mul_(across(factors_of(inverse_deviation, weight), x));
  if (bias.defined()) output.add_(across(bias, x));
  return {output.to(input.scalar_type()), mean.clone(), inverse_deviation, squares / (count - 1)};
}

void update_running(const at::Tensor& running, const at::Tensor& now, double momentum) {
  const at::NoGradGuard no_grad;
  at::Tensor(running).copy_(as_double(running) * (1 - momentum) + as_double(now) * momentum);
}

at::Tensor gradient_sums(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                         const at::Tensor& inverse_deviation) {
  const auto x = wide(input);
  const auto g = wide(gradient);
  const auto dims = all_but_channels(input);
  const auto sum = [&](const at::Tensor& tensor) { return tensor.sum(dims, /*keepdim=*/false, at::kDouble); };
  return at::stack({sum(g * (x - across(mean, x))) * as_double(inverse_deviation), sum(g)});
}

at::Tensor gradient_of_input(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
                             const at::Tensor& mean, const at::Tensor& inverse_deviation, const at::Tensor& sums,
                             double values) {
  const auto x = wide(input);
  const auto means = as_double(sums) / values;
  const auto slopes = means[0] * as_double(inverse_deviation);
  auto output = wide(gradient) - across(means[1], x);
  output.sub_((x - across(mean, x)).mul_(across(slopes, x)));
  output.mul_(across(factors_of(inverse_deviation, weight), x));
  return output.to(input.scalar_type());
}

}  // namespace
}  // namespace operators

const BatchNorm batch_norm_by_operators{operators::moments,       operators::joined,
                                        operators::normalized,    operators::update_running,
                                        operators::gradient_sums, operators::gradient_of_input};

}  // namespace lockstep::kernels
