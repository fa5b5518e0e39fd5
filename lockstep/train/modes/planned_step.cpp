// The trace of one training step on a model without memory: forward, loss, clipping and optimizer, for the planner.
#include <lockstep/plan/trace/trace_step.h>
#include <lockstep/train/modes/forward.h>
#include <lockstep/train/modes/planned_step.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/optimizer/clip_gradients.h>

#include <torch/torch.h>

#include <chrono>

namespace lockstep::train {
namespace {

samples::Batch example_of(const Program& program) {
  return program.example ? program.example() : program.data(data::Split::train)->example();
}

std::vector<plan::ExampleInput> inputs_of(const samples::Batch& example, std::int64_t samples) {
  std::vector<plan::ExampleInput> inputs;
  for (const auto& [name, tensor] : example.tensors) {
    auto sizes = tensor.sizes().vec();
    sizes.at(0) = samples;
    inputs.push_back({.name = name, .sizes = std::move(sizes), .dtype = tensor.scalar_type()});
  }
  return inputs;
}

samples::Batch batch_of(const samples::Batch& example, const std::vector<at::Tensor>& tensors, std::int64_t samples) {
  samples::Batch batch;
  batch.count = samples;
  std::size_t i = 0;
  for (const auto& [name, tensor] : example.tensors) batch.tensors.emplace(name, tensors.at(i++));
  return batch;
}

}  // namespace

std::vector<plan::ExampleInput> inputs_of_step(const Program& program, std::int64_t samples) {
  return inputs_of(example_of(program), samples);
}

PlannedStep trace_run(const RunConfig& config, const Program& program, std::int64_t samples) {
  const auto start = std::chrono::steady_clock::now();
  auto step = trace_run(config, program, example_of(program), samples);
  step.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return step;
}

PlannedStep trace_run(const RunConfig& config, const Program& program, const samples::Batch& example,
                      std::int64_t samples) {
  const auto start = std::chrono::steady_clock::now();
  const auto model = model_without_memory(config, program);
  const double clip_norm = config.train.clip_norm;
  PlannedStep step;
  step.graph = plan::trace_step(
      {.module = model.module.get(),
       .inputs = inputs_of(example, samples),
       .loss =
           [&](const std::vector<at::Tensor>& in) {
             return model.task->run(*model.module, batch_of(example, in, samples), /*measures=*/false).loss;
           },
       .prepare_gradients =
           [clip_norm](const std::vector<at::Tensor>& parameters) {
             if (clip_norm > 0) clip_gradients(parameters, clip_norm);
           },
       .optimizer =
           [&](const std::vector<at::Tensor>& /*without their names*/) {
             return make_optimizer(config.optimizer, trainable_parameters(*model.module));
           }});
  step.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return step;
}

}  // namespace lockstep::train
