// The measurement of one device: arithmetic, memory, and the overhead of operators.
#include <lockstep/base/available_memory.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/device/devices.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/plan/cost/cost_model.h>
#include <lockstep/plan/measure/measure.h>
#include <lockstep/plan/trace/trace_step.h>

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::plan {
namespace {

/// Sizes that are large for a device: far more work than a launch costs, and more bytes than its caches.
struct Sizes {
  std::int64_t few_rows, many_rows, width;  ///< of matrix products
  std::int64_t pictures;                    ///< of convolutions
  std::int64_t elements;                    ///< of a layer's activations
};
constexpr Sizes kOfCpus{.few_rows = 32, .many_rows = 256, .width = 1024, .pictures = 16, .elements = 512 << 10};
constexpr Sizes kOfGpus{.few_rows = 256, .many_rows = 8192, .width = 4096, .pictures = 512, .elements = 16 << 20};

Sizes sizes_for(const c10::Device& device) { return device.is_cuda() ? kOfGpus : kOfCpus; }

constexpr std::int64_t kRows = 4;
constexpr std::int64_t kNarrow = 8;
constexpr int kDepth = 12;
constexpr int kSteps = 10;  ///< that are timed at once

torch::nn::Sequential deep_and_narrow() {
  torch::nn::Sequential layers;
  for (int i = 0; i < kDepth; ++i) {
    layers->push_back(torch::nn::Linear(kNarrow, kNarrow));
    layers->push_back(torch::nn::ReLU());
  }
  return layers;
}

std::unique_ptr<torch::optim::Optimizer> momentum(const std::vector<at::Tensor>& parameters) {
  return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(1e-3).momentum(0.9));
}

/// The seconds per operator of a training step with almost no computation: forward, backward and optimizer of a deep
/// and narrow perceptron of global tensors, divided by its number of traced operators. So it includes everything around
/// the operators of a planned step: autograd, dispatch to ranks, allocation, the optimizer's loop over parameters. On a
/// GPU, which has no global tensors, of plain tensors. A collective.
double operator_overhead(const Group& group, const MeasureOptions& options) {
  auto layers = deep_and_narrow();
  const auto loss = [&](const std::vector<at::Tensor>& in) {
    return torch::cross_entropy_loss(layers->forward(in[0]), in[1]);
  };
  const std::vector<at::Tensor> batch{torch::ones({kRows, kNarrow}), torch::zeros({kRows}, torch::kLong)};
  const auto operators =
      trace_step({.module = layers.get(), .inputs = examples_of(batch), .loss = loss, .optimizer = momentum})
          .nodes.size();

  std::vector<at::Tensor> inputs;
  std::optional<Mesh> mesh;
  if (const c10::Device device(group.device()); device.is_cuda()) {
    layers->to(device);
    for (const auto& each : batch) inputs.push_back(each.to(device));
  } else {
    // Everything is replicated, so that nothing is sent.
    mesh.emplace(group);
    distribute_module(layers, *mesh);
    for (const auto& each : batch) inputs.push_back(distribute(each, *mesh, {Replicate()}));
  }
  const auto optimizer = momentum(layers->parameters());
  const double seconds = seconds_together(group, options.rounds, [&] {
    for (int step = 0; step < kSteps; ++step) {
      layers->zero_grad(/*set_to_none=*/true);
      loss(inputs).backward();
      optimizer->step();
    }
  });
  return seconds / kSteps / static_cast<double>(operators);
}

/// The matrix products in a step of a few layers: outputs, and the gradients of inputs and weights. The weights are
/// together larger than a core's own caches.
TimedWork products(const Group& group, const MeasureOptions& options, std::int64_t rows) {
  constexpr int kLayers = 6;
  const auto as = at::device(c10::Device(group.device())).dtype(options.dtype);
  const auto width = sizes_for(as.device()).width;
  const auto input = torch::ones({rows, width}, as);
  const auto gradient = torch::ones({rows, width}, as);
  std::vector<at::Tensor> weights;
  for (int i = 0; i < kLayers; ++i) weights.push_back(torch::ones({width, width}, as));
  const double seconds = seconds_together(group, options.rounds, [&] {
    for (const auto& each : weights) {
      input.mm(each.t());
      gradient.mm(each);
      gradient.t().mm(input);
    }
  });
  constexpr double kProducts = 3.0 * kLayers;
  const auto height = static_cast<double>(rows), side = static_cast<double>(width);
  return {.work = {kProducts * 2 * height * side * side},
          .touched = {kProducts * static_cast<double>(input.element_size()) * side * (side + 2 * height)},
          .took = {seconds}};
}

/// One stage of a convolutional network.
struct Stage {
  std::int64_t channels;
  std::int64_t side;  ///< of its pictures
};

/// Networks halve the picture size and double the channels from stage to stage, so all stages have the same number of
/// operations; small pictures make them slower.
double convolution_rate(const Group& group, const MeasureOptions& options) {
  const auto as = at::device(c10::Device(group.device())).dtype(options.dtype);
  const auto count = sizes_for(as.device()).pictures;
  double seconds = 0;
  double operations = 0;
  for (const auto [channels, side] : {Stage{64, 32}, Stage{256, 8}, Stage{512, 4}}) {
    const auto pictures = torch::ones({count, channels, side, side}, as).requires_grad_();
    const auto kernels = torch::ones({channels, channels, 3, 3}, as).requires_grad_();
    const auto output_like = torch::ones_like(pictures);
    seconds += seconds_together(group, options.rounds, [&] {
      pictures.mutable_grad().reset();
      kernels.mutable_grad().reset();
      torch::conv2d(pictures, kernels, {}, 1, 1).backward(output_like);
    });
    operations += 3 * 2.0 * static_cast<double>(count * channels * channels * side * side) * 9;
  }
  return operations / seconds;
}

/// The memory rate of a typical step: many tensors of a layer's size, each processed by a few consecutive operators, so
/// that the first one reads from memory and the next ones from a cache. Some operators work in place, as optimizers do,
/// and some allocate their result, as activations do.
double memory_rate(const Group& group, int rounds) {
  constexpr std::size_t kTensors = 24;  // with their second operands far larger than a cache
  const c10::Device device(group.device());
  const auto elements = sizes_for(device).elements;
  std::vector<at::Tensor> a;
  std::vector<at::Tensor> b;
  for (std::size_t i = 0; i < kTensors; ++i) {
    a.push_back(torch::ones({elements}, device));
    b.push_back(torch::ones({elements}, device));
  }
  const double seconds = seconds_together(group, rounds, [&] {
    for (std::size_t i = 0; i < kTensors; ++i) {
      a[i].add_(b[i]);
      a[i].relu();
      a[i].mul(b[i]);
    }
  });
  constexpr double kTouched = 3 + 2 + 3;
  return kTouched * sizeof(float) * static_cast<double>(elements) * kTensors / seconds;
}

/// The free memory of this host in bytes; 0 if unknown.
double free_memory_of_host() {
  const auto bytes = available_memory();
  return bytes == std::numeric_limits<std::uint64_t>::max() ? 0 : static_cast<double>(bytes);
}

}  // namespace

Device measure_device(const Group& group, const MeasureOptions& options) {
  Device device;
  const c10::Device here(group.device());
  const auto few = products(group, options, sizes_for(here).few_rows);
  const auto many = products(group, options, sizes_for(here).many_rows);
  const auto rates = rates_of(few, many);
  device.matmul = rates.computing;
  device.matmul_bandwidth = rates.moving;
  device.convolution = FlopsPerSecond{convolution_rate(group, options)};
  device.memory_bandwidth = BytesPerSecond{memory_rate(group, options.rounds)};
  device.operator_overhead = Seconds{operator_overhead(group, options)};
  const double free_memory = here.is_cuda() ? static_cast<double>(detail::free_device_memory(here.index()))
                                            : free_memory_of_host() / std::max(group.local_size(), 1);
  auto free_here = torch::full({1}, free_memory, torch::kDouble);
  all_reduce(free_here, group, ReduceOp::min);
  if (free_here.item<double>() > 0) device.memory = Bytes{free_here.item<double>()};
  return device;
}

}  // namespace lockstep::plan
