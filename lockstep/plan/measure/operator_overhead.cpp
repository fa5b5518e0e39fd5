#include <lockstep/global/distribute_module.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/mesh.h>
#include <lockstep/plan/measure/operator_overhead.h>
#include <lockstep/plan/measure/stopwatch.h>
#include <lockstep/plan/trace/trace_step.h>

#include <torch/torch.h>

namespace lockstep::plan {
namespace {

constexpr std::int64_t kRows = 4;
constexpr std::int64_t kWidth = 8;
constexpr int kLayers = 12;
constexpr int kSteps = 10;  ///< that are timed at once

torch::nn::Sequential deep_and_narrow() {
  torch::nn::Sequential layers;
  for (int i = 0; i < kLayers; ++i) {
    layers->push_back(torch::nn::Linear(kWidth, kWidth));
    layers->push_back(torch::nn::ReLU());
  }
  return layers;
}

std::unique_ptr<torch::optim::Optimizer> momentum(const std::vector<at::Tensor>& parameters) {
  return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(1e-3).momentum(0.9));
}

}  // namespace

double operator_overhead(const Group& group, const MeasureOptions& options) {
  auto layers = deep_and_narrow();
  const auto loss = [&](const std::vector<at::Tensor>& in) {
    return torch::cross_entropy_loss(layers->forward(in[0]), in[1]);
  };
  const std::vector<at::Tensor> batch{torch::ones({kRows, kWidth}), torch::zeros({kRows}, torch::kLong)};
  const auto operators =
      trace_step({.module = layers.get(), .inputs = examples_of(batch), .loss = loss, .optimizer = momentum})
          .nodes.size();

  // Everything is replicated, so that nothing is sent.
  const Mesh mesh(group);
  distribute_module(layers, mesh);
  const auto optimizer = momentum(layers->parameters());
  std::vector<at::Tensor> inputs;
  for (const auto& each : batch) inputs.push_back(distribute(each, mesh, {Replicate()}));
  const double seconds = seconds_together(group, options.rounds, [&] {
    for (int step = 0; step < kSteps; ++step) {
      layers->zero_grad(/*set_to_none=*/true);
      loss(inputs).backward();
      optimizer->step();
    }
  });
  return seconds / kSteps / static_cast<double>(operators);
}

}  // namespace lockstep::plan
