#include <lockstep/comm/collectives.h>
#include <lockstep/plan/measure/device_rates.h>
#include <lockstep/plan/measure/stopwatch.h>

#include <torch/torch.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace lockstep::plan {
namespace {

double matmul_rate(const Group& group, int rounds) {
  constexpr std::int64_t kRows = 128;  // a batch
  constexpr std::int64_t kWidth = 1024;
  const auto a = torch::ones({kRows, kWidth});
  const auto b = torch::ones({kWidth, kWidth});
  const auto gradient = torch::ones({kRows, kWidth});
  const double seconds = seconds_together(group, rounds, [&] {
    a.mm(b);
    gradient.mm(b.t());
    a.t().mm(gradient);
  });
  return 3 * 2.0 * kRows * kWidth * kWidth / seconds;
}

double convolution_rate(const Group& group, int rounds) {
  constexpr std::int64_t kPictures = 16;
  constexpr std::int64_t kChannels = 64;
  constexpr std::int64_t kSide = 32;
  const auto pictures = torch::ones({kPictures, kChannels, kSide, kSide});
  const auto kernels = torch::ones({kChannels, kChannels, 3, 3}).requires_grad_();
  auto needs_gradient = pictures.clone().requires_grad_();
  const double seconds =
      seconds_together(group, rounds, [&] { torch::conv2d(needs_gradient, kernels, {}, 1, 1).sum().backward(); });
  return 3 * 2.0 * kPictures * kChannels * kChannels * kSide * kSide * 9 / seconds;
}

double memory_rate(const Group& group, int rounds) {
  constexpr std::int64_t kElements = 16 << 20;
  auto a = torch::ones({kElements});
  const auto b = torch::ones({kElements});
  const double seconds = seconds_together(group, rounds, [&] { a.add_(b); });
  return 3.0 * sizeof(float) * kElements / seconds;
}

double operator_seconds(const Group& group, int rounds) {
  constexpr int kCalls = 2000;
  const auto a = torch::ones({4, 4}).requires_grad_();
  return seconds_together(group, rounds,
                          [&] {
                            for (int i = 0; i < kCalls; ++i) a.relu();
                          }) /
         kCalls;
}

/// Of this host, in bytes; 0 where it does not say.
double free_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    if (word != "MemAvailable:") continue;
    double kibibytes = 0;
    file >> kibibytes;
    return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

Device measure_device(const Group& group, const MeasureOptions& options) {
  Device device;
  device.matmul = FlopsPerSecond{matmul_rate(group, options.rounds)};
  device.convolution = FlopsPerSecond{convolution_rate(group, options.rounds)};
  device.memory_bandwidth = BytesPerSecond{memory_rate(group, options.rounds)};
  device.operator_overhead = Seconds{operator_seconds(group, options.rounds)};
  auto free_here = torch::full({1}, free_memory() / std::max(group.local_size(), 1), torch::kDouble);
  all_reduce(free_here, group, ReduceOp::min);
  if (free_here.item<double>() > 0) device.memory = Bytes{free_here.item<double>()};
  return device;
}

}  // namespace lockstep::plan
