#include <lockstep/kernels/batch_norm.h>
#include <lockstep/kernels/batch_norm_sets.h>

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

namespace lockstep::kernels {
namespace {

constexpr std::int64_t kChannels = 1;
constexpr std::int64_t kNumbersOfThread = 32 << 10;  // fewer are not worth another thread

/// Pictures as the loops take them.
struct Dense {
  at::Tensor tensor;
  at::MemoryFormat format;
  ChannelLayout layout;
};

bool lies_channels_last(at::MemoryFormat format) {
  return format == at::MemoryFormat::ChannelsLast || format == at::MemoryFormat::ChannelsLast3d;
}

/// Narrow floats are computed with in float32.
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

const double* numbers(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr<double>() : nullptr; }

/// Calls work(loops for Number, range) for ranges of all channels, on several threads where that is worth it.
template <typename Number, typename Work>
void over_channels(const ChannelLayout& layout, const Work& work) {
  const auto& loops = batch_norm_loops<Number>();
  const auto of_channel = std::max<std::int64_t>(1, layout.pictures * layout.positions);
  at::parallel_for(0, layout.channels, std::max<std::int64_t>(1, kNumbersOfThread / of_channel),
                   [&](std::int64_t begin, std::int64_t end) {
                     work(loops, ChannelRange{begin, end});
                   });
}

/// Where the parts of a row of moments begin.
struct Moments {
  double* count;
  double* mean;
  double* squares;
};

Moments split(double* row, std::int64_t channels) { return {row, row + 1, row + 1 + channels}; }

std::int64_t channels_of(const at::Tensor& moments) { return (moments.size(-1) - 1) / 2; }

}  // namespace

at::Tensor moments_of(const at::Tensor& input) {
  const auto channels = input.size(kChannels);
  auto moments = at::zeros({1 + 2 * channels}, at::kDouble);
  if (input.numel() == 0) return moments;
  const auto pictures = dense(input);
  const auto to = split(moments.data_ptr<double>(), channels);
  *to.count = static_cast<double>(pictures.layout.pictures * pictures.layout.positions);
  AT_DISPATCH_FLOATING_TYPES(pictures.tensor.scalar_type(), "moments_of", [&] {
    over_channels<scalar_t>(pictures.layout, [&](const auto& loops, ChannelRange range) {
      loops.moments(pictures.tensor.data_ptr<scalar_t>(), pictures.layout, range, to.mean, to.squares);
    });
  });
  return moments;
}

at::Tensor joined_moments(const at::Tensor& parts) {
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
  const auto channels = channels_of(moments);
  const auto row = moments.contiguous();
  const auto from = split(row.data_ptr<double>(), channels);
  BatchStatistics statistics{of_channels(channels), of_channels(channels), of_channels(channels)};
  auto* const mean = statistics.mean.data_ptr<double>();
  auto* const inverse_deviation = statistics.inverse_deviation.data_ptr<double>();
  auto* const sample_variance = statistics.sample_variance.data_ptr<double>();
  for (std::int64_t c = 0; c < channels; ++c) {
    mean[c] = from.mean[c];
    inverse_deviation[c] = 1 / std::sqrt(from.squares[c] / *from.count + eps);
    sample_variance[c] = from.squares[c] / (*from.count - 1);
  }
  return statistics;
}

void update_running(const at::Tensor& running, const at::Tensor& now, double momentum) {
  if (!running.defined()) return;
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
  const auto channels = mean.numel();
  const auto pictures = dense(input);
  auto output = at::empty_like(pictures.tensor, pictures.format);
  const auto weights = weight.defined() ? as_double(weight) : at::Tensor();
  const auto biases = bias.defined() ? as_double(bias) : at::Tensor();
  const auto means = as_double(mean);
  const auto deviations = as_double(inverse_deviation);
  const auto factors = of_channels(channels);
  const auto shifts = of_channels(channels);
  for (std::int64_t c = 0; c < channels; ++c) {
    const double factor = numbers(deviations)[c] * (weights.defined() ? numbers(weights)[c] : 1);
    factors.data_ptr<double>()[c] = factor;
    shifts.data_ptr<double>()[c] = (biases.defined() ? numbers(biases)[c] : 0) - numbers(means)[c] * factor;
  }
  AT_DISPATCH_FLOATING_TYPES(pictures.tensor.scalar_type(), "normalized", [&] {
    over_channels<scalar_t>(pictures.layout, [&](const auto& loops, ChannelRange range) {
      loops.scale(pictures.tensor.data_ptr<scalar_t>(), pictures.layout, range, numbers(factors), numbers(shifts),
                  output.data_ptr<scalar_t>());
    });
  });
  return output.to(input.scalar_type());
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
  auto* const with_input = sums.data_ptr<double>();
  auto* const alone = with_input + channels;
  AT_DISPATCH_FLOATING_TYPES(pictures.tensor.scalar_type(), "gradient_sums", [&] {
    over_channels<scalar_t>(pictures.layout, [&](const auto& loops, ChannelRange range) {
      loops.sums(gradients.tensor.data_ptr<scalar_t>(), pictures.tensor.data_ptr<scalar_t>(), pictures.layout, range,
                 numbers(means), with_input, alone);
    });
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
  const auto weights = weight.defined() ? as_double(weight) : at::Tensor();
  const auto means = as_double(mean);
  const auto deviations = as_double(inverse_deviation);
  const auto all_sums = as_double(sums);
  const auto* const with_input = numbers(all_sums);
  const auto* const alone = with_input + channels;
  const auto computed = at::empty({3, channels}, at::kDouble);
  auto* const factors = computed.data_ptr<double>();
  auto* const mean_gradients = factors + channels;
  auto* const slopes = mean_gradients + channels;
  for (std::int64_t c = 0; c < channels; ++c) {
    const double deviation = numbers(deviations)[c];
    factors[c] = deviation * (weights.defined() ? numbers(weights)[c] : 1);
    mean_gradients[c] = alone[c] / values;
    slopes[c] = deviation * with_input[c] / values;
  }
  AT_DISPATCH_FLOATING_TYPES(pictures.tensor.scalar_type(), "gradient_of_input", [&] {
    over_channels<scalar_t>(pictures.layout, [&](const auto& loops, ChannelRange range) {
      loops.gradient(gradients.tensor.data_ptr<scalar_t>(), pictures.tensor.data_ptr<scalar_t>(), pictures.layout,
                     range, numbers(means), factors, mean_gradients, slopes, output.data_ptr<scalar_t>());
    });
  });
  return output.to(input.scalar_type());
}

}  // namespace lockstep::kernels
