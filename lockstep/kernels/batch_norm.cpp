// Batch norm on CPUs by vectorized loops with statistics in double, and by libtorch's operators on any device.
#include <lockstep/kernels/batch_norm.h>

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <type_traits>

namespace lockstep::kernels {

extern const BatchNormTable baseline_batch_norm;
extern const BatchNormTable avx2_batch_norm;
extern const BatchNormTable avx512_batch_norm;

const std::vector<InstructionSet<BatchNormTable>>& batch_norm_sets() {
  static const auto sets = usable_sets(baseline_batch_norm, avx2_batch_norm, avx512_batch_norm);
  return sets;
}

const BatchNorm& batch_norm_for(const at::Tensor& input) {
  return input.is_cpu() ? batch_norm_by_loops : batch_norm_by_operators;
}

namespace {

template <typename Number>
const BatchNormLoops<Number>& fastest_loops() {
  static const BatchNormTable& table = *batch_norm_sets().back().table;
  if constexpr (std::is_same_v<Number, float>) {
    return table.of_float;
  } else {
    return table.of_double;
  }
}

constexpr std::int64_t kChannels = 1;
constexpr std::int64_t kNumbersOfThread = 32 << 10;  // fewer values per thread are not worth another thread

/// A batch in the layout that the loops take.
struct Dense {
  at::Tensor tensor;
  at::MemoryFormat format;
  ChannelLayout layout;
};

bool lies_channels_last(at::MemoryFormat format) {
  return format == at::MemoryFormat::ChannelsLast || format == at::MemoryFormat::ChannelsLast3d;
}

/// float16 and bfloat16 are converted to float32.
at::Tensor computable(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}

Dense dense(const at::Tensor& input, at::MemoryFormat format) {
  const auto channels = input.size(kChannels);
  const auto pictures = input.size(0);
  const auto positions = input.numel() / std::max<std::int64_t>(1, pictures * channels);
  return {computable(input).contiguous(format),
          format,
          {pictures, channels, positions, lies_channels_last(format) || positions == 1}};
}

Dense dense(const at::Tensor& input) { return dense(input, input.suggest_memory_format()); }

at::Tensor of_channels(std::int64_t channels) { return at::empty({channels}, at::kDouble); }

at::Tensor as_double(const at::Tensor& tensor) { return tensor.to(at::kDouble).contiguous(); }

double* numbers(const at::Tensor& tensor) { return tensor.data_ptr<double>(); }

/// The factor of each channel, [channels].
at::Tensor factors_of(const at::Tensor& inverse_deviation, const at::Tensor& weight) {
  return weight.defined() ? inverse_deviation * as_double(weight) : inverse_deviation;
}

/// Calls work(loops, data of the batch, range) for ranges that cover all channels, on several threads if the batch is
/// large enough.
template <typename Work>
void over_channels(const Dense& pictures, const Work& work) {
  const auto& layout = pictures.layout;
  const auto of_channel = std::max<std::int64_t>(1, layout.pictures * layout.positions);
  AT_DISPATCH_FLOATING_TYPES(pictures.tensor.scalar_type(), "batch_norm", [&] {
    const auto& loops = fastest_loops<scalar_t>();
    const scalar_t* const first = pictures.tensor.data_ptr<scalar_t>();
    at::parallel_for(0, layout.channels, std::max<std::int64_t>(1, kNumbersOfThread / of_channel),
                     [&](std::int64_t begin, std::int64_t end) {
                       work(loops, first, ChannelRange{begin, end});
                     });
  });
}

/// The data of a tensor with the same dtype.
template <typename Number>
Number* beside(const Number*, const at::Tensor& tensor) {
  return tensor.data_ptr<Number>();
}

/// Pointers to the parts of a row of moments.
struct Moments {
  double* count;
  double* mean;
  double* squares;
};

Moments split(double* row, std::int64_t channels) { return {row, row + 1, row + 1 + channels}; }

std::int64_t channels_of(const at::Tensor& moments) { return (moments.size(-1) - 1) / 2; }

at::Tensor moments(const at::Tensor& input) {
  const auto channels = input.size(kChannels);
  auto moments = at::zeros({1 + 2 * channels}, at::kDouble);
  if (input.numel() == 0) return moments;
  const auto pictures = dense(input);
  const auto to = split(numbers(moments), channels);
  *to.count = static_cast<double>(pictures.layout.pictures * pictures.layout.positions);
  over_channels(pictures, [&](const auto& loops, const auto* x, ChannelRange range) {
    loops.moments(x, pictures.layout, range, to.mean, to.squares);
  });
  return moments;
}

at::Tensor joined(const at::Tensor& parts) {
  const auto channels = channels_of(parts);
  const auto rows = parts.contiguous();
  auto whole = at::zeros({parts.size(1)}, at::kDouble);
  const auto to = split(numbers(whole), channels);
  for (std::int64_t part = 0; part < rows.size(0); ++part) {
    const auto from = split(numbers(rows) + part * rows.size(1), channels);
    if (*from.count == 0) continue;
    const double before = *to.count;
    *to.count += *from.count;
    const double share = *from.count / *to.count;
    for (std::int64_t c = 0; c < channels; ++c) {
      const double distance = from.mean[c] - to.mean[c];
      to.mean[c] += distance * share;
      to.squares[c] += from.squares[c] + distance * distance * before * share;
    }
  }
  return whole;
}

NormalizedPart normalized(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                          const at::Tensor& moments, double eps) {
  const auto channels = channels_of(moments);
  const auto row = moments.contiguous();
  const auto from = split(numbers(row), channels);
  const auto pictures = dense(input);
  NormalizedPart part{at::empty_like(pictures.tensor, pictures.format), of_channels(channels), of_channels(channels),
                      of_channels(channels)};
  auto* const mean = numbers(part.mean);
  auto* const inverse_deviation = numbers(part.inverse_deviation);
  auto* const sample_variance = numbers(part.sample_variance);
  for (std::int64_t c = 0; c < channels; ++c) {
    mean[c] = from.mean[c];
    inverse_deviation[c] = 1 / std::sqrt(from.squares[c] / *from.count + eps);
    sample_variance[c] = from.squares[c] / (*from.count - 1);
  }
  const auto factors = factors_of(part.inverse_deviation, weight);
  auto shifts = -part.mean * factors;
  if (bias.defined()) shifts += as_double(bias);
  over_channels(pictures, [&](const auto& loops, const auto* x, ChannelRange range) {
    loops.scale(x, pictures.layout, range, numbers(factors), numbers(shifts), beside(x, part.output));
  });
  part.output = part.output.to(input.scalar_type());
  return part;
}

void update_running(const at::Tensor& running, const at::Tensor& now, double momentum) {
  const auto from = as_double(now);
  const auto* const values = numbers(from);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, running.scalar_type(), "update_running", [&] {
    auto* const to = running.data_ptr<scalar_t>();
    const auto stride = running.stride(0);
    for (std::int64_t c = 0; c < running.numel(); ++c) {
      auto& each = to[c * stride];
      each = static_cast<scalar_t>((1 - momentum) * static_cast<double>(each) + momentum * values[c]);
    }
  });
}

at::Tensor gradient_sums(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                         const at::Tensor& inverse_deviation) {
  const auto channels = mean.numel();
  auto sums = at::zeros({2, channels}, at::kDouble);
  if (input.numel() == 0) return sums;
  const auto pictures = dense(input);
  const auto gradients = dense(gradient, pictures.format);
  const auto means = as_double(mean);
  const auto deviations = as_double(inverse_deviation);
  auto* const with_input = numbers(sums);
  auto* const alone = with_input + channels;
  over_channels(pictures, [&](const auto& loops, const auto* x, ChannelRange range) {
    loops.sums(beside(x, gradients.tensor), x, pictures.layout, range, numbers(means), with_input, alone);
  });
  for (std::int64_t c = 0; c < channels; ++c) with_input[c] *= numbers(deviations)[c];
  return sums;
}

at::Tensor gradient_of_input(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
                             const at::Tensor& mean, const at::Tensor& inverse_deviation, const at::Tensor& sums,
                             double values) {
  const auto channels = mean.numel();
  const auto pictures = dense(input);
  const auto gradients = dense(gradient, pictures.format);
  auto output = at::empty_like(pictures.tensor, pictures.format);
  const auto means = as_double(mean);
  const auto deviations = as_double(inverse_deviation);
  const auto factors = factors_of(deviations, weight);
  const auto all_sums = as_double(sums);
  const auto* const with_input = numbers(all_sums);
  const auto* const alone = with_input + channels;
  const auto mean_gradients = of_channels(channels);
  const auto slopes = of_channels(channels);
  for (std::int64_t c = 0; c < channels; ++c) {
    numbers(mean_gradients)[c] = alone[c] / values;
    numbers(slopes)[c] = numbers(deviations)[c] * with_input[c] / values;
  }
  over_channels(pictures, [&](const auto& loops, const auto* x, ChannelRange range) {
    loops.gradient(beside(x, gradients.tensor), x, pictures.layout, range, numbers(means), numbers(factors),
                   numbers(mean_gradients), numbers(slopes), beside(x, output));
  });
  return output.to(input.scalar_type());
}

}  // namespace

const BatchNorm batch_norm_by_loops{moments, joined, normalized, update_running, gradient_sums, gradient_of_input};

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
