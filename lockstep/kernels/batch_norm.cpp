// Batch norm on CPUs by vectorized loops with statistics in double; other devices take libtorch's operators.
#include <lockstep/kernels/batch_norm.h>
#include <lockstep/kernels/batch_norm_anywhere.h>

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

namespace lockstep::kernels {

extern const BatchNormTable baseline_batch_norm;
extern const BatchNormTable avx2_batch_norm;
extern const BatchNormTable avx512_batch_norm;

namespace {

const BatchNormTable& fastest() {
  static const BatchNormTable* const table = batch_norm_sets().back().table;
  return *table;
}

}  // namespace

const std::vector<InstructionSet<BatchNormTable>>& batch_norm_sets() {
  static const auto sets = usable_sets(baseline_batch_norm, avx2_batch_norm, avx512_batch_norm);
  return sets;
}

template <>
const BatchNormLoops<float>& batch_norm_loops() {
  return fastest().of_float;
}

template <>
const BatchNormLoops<double>& batch_norm_loops() {
  return fastest().of_double;
}

namespace {

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
  const auto deviations = as_double(inverse_deviation);
  return weight.defined() ? deviations * as_double(weight) : deviations;
}

/// Calls work(loops, data of the batch, range) for ranges that cover all channels, on several threads if the batch is
/// large enough.
template <typename Work>
void over_channels(const Dense& pictures, const Work& work) {
  const auto& layout = pictures.layout;
  const auto of_channel = std::max<std::int64_t>(1, layout.pictures * layout.positions);
  AT_DISPATCH_FLOATING_TYPES(pictures.tensor.scalar_type(), "batch_norm", [&] {
    const auto& loops = batch_norm_loops<scalar_t>();
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

}  // namespace

at::Tensor moments_of(const at::Tensor& input) {
  if (!input.is_cpu()) return anywhere::moments_of(input);
  const auto channels = input.size(kChannels);
  auto moments = at::zeros({1 + 2 * channels}, at::kDouble);
  if (input.numel() == 0) return moments;
  const auto pictures = dense(input);
  const auto to = split(moments.data_ptr<double>(), channels);
  *to.count = static_cast<double>(pictures.layout.pictures * pictures.layout.positions);
  over_channels(pictures, [&](const auto& loops, const auto* x, ChannelRange range) {
    loops.moments(x, pictures.layout, range, to.mean, to.squares);
  });
  return moments;
}

at::Tensor joined_moments(const at::Tensor& parts) {
  if (!parts.is_cpu()) return anywhere::joined_moments(parts);
  const auto channels = channels_of(parts);
  const auto rows = parts.contiguous();
  auto whole = at::zeros({parts.size(1)}, at::kDouble);
  const auto to = split(whole.data_ptr<double>(), channels);
  for (std::int64_t part = 0; part < rows.size(0); ++part) {
    const auto from = split(rows.data_ptr<double>() + part * rows.size(1), channels);
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

BatchStatistics statistics_from(const at::Tensor& moments, double eps) {
  if (!moments.is_cpu()) return anywhere::statistics_from(moments, eps);
  const auto channels = channels_of(moments);
  const auto row = moments.contiguous();
  const auto from = split(row.data_ptr<double>(), channels);
  BatchStatistics statistics{of_channels(channels), of_channels(channels), of_channels(channels)};
  auto* const mean = numbers(statistics.mean);
  auto* const inverse_deviation = numbers(statistics.inverse_deviation);
  auto* const sample_variance = numbers(statistics.sample_variance);
  for (std::int64_t c = 0; c < channels; ++c) {
    mean[c] = from.mean[c];
    inverse_deviation[c] = 1 / std::sqrt(from.squares[c] / *from.count + eps);
    sample_variance[c] = from.squares[c] / (*from.count - 1);
  }
  return statistics;
}

void update_running(const at::Tensor& running, const at::Tensor& now, double momentum) {
  if (!running.defined()) return;
  if (!running.is_cpu()) return anywhere::update_running(running, now, momentum);
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

at::Tensor normalized(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& mean,
                      const at::Tensor& inverse_deviation) {
  if (!input.is_cpu()) return anywhere::normalized(input, weight, bias, mean, inverse_deviation);
  const auto pictures = dense(input);
  auto output = at::empty_like(pictures.tensor, pictures.format);
  const auto factors = factors_of(inverse_deviation, weight);
  auto shifts = -as_double(mean) * factors;
  if (bias.defined()) shifts += as_double(bias);
  over_channels(pictures, [&](const auto& loops, const auto* x, ChannelRange range) {
    loops.scale(x, pictures.layout, range, numbers(factors), numbers(shifts), beside(x, output));
  });
  return output.to(input.scalar_type());
}

at::Tensor gradient_sums(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                         const at::Tensor& inverse_deviation) {
  if (!input.is_cpu()) return anywhere::gradient_sums(gradient, input, mean, inverse_deviation);
  const auto channels = mean.numel();
  auto sums = at::zeros({2, channels}, at::kDouble);
  if (input.numel() == 0) return sums;
  const auto pictures = dense(input);
  const auto gradients = dense(gradient, pictures.format);
  const auto means = as_double(mean);
  const auto deviations = as_double(inverse_deviation);
  auto* const with_input = sums.data_ptr<double>();
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
  if (!input.is_cpu()) {
    return anywhere::gradient_of_input(gradient, input, weight, mean, inverse_deviation, sums, values);
  }
  const auto channels = mean.numel();
  const auto pictures = dense(input);
  const auto gradients = dense(gradient, pictures.format);
  auto output = at::empty_like(pictures.tensor, pictures.format);
  const auto means = as_double(mean);
  const auto deviations = as_double(inverse_deviation);
  const auto factors = factors_of(inverse_deviation, weight);
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

}  // namespace lockstep::kernels
