// The trace of one training step of a GPT without memory: forward, cross entropy and AdamW, for the planner.
#include <lockstep/plan/trace/trace_step.h>
#include <lockstep/train/modes/planned_gpt.h>

#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <vector>

namespace lockstep::train {
namespace {

std::shared_ptr<models::Gpt> gpt_without_memory(const models::GptShape& shape) {
  const plan::WithoutMemory scope;
  return models::gpt(shape);
}

}  // namespace

PlannedStep trace_gpt(const models::GptShape& shape, std::int64_t batch) {
  const auto start = std::chrono::steady_clock::now();
  const auto model = gpt_without_memory(shape);
  const std::vector<std::int64_t> sizes{batch, shape.context};
  PlannedStep step;
  step.graph = plan::trace_step(
      {.module = model.get(),
       .inputs = {{.name = "tokens", .sizes = sizes, .dtype = torch::kLong},
                  {.name = "next", .sizes = sizes, .dtype = torch::kLong}},
       .loss =
           [&](const std::vector<at::Tensor>& in) {
             const auto logits = model->forward(in[0]);
             return torch::cross_entropy_loss(logits.flatten(0, 1), in[1].flatten());
           },
       .optimizer = [](const std::vector<at::Tensor>& parameters) -> std::unique_ptr<torch::optim::Optimizer> {
         return std::make_unique<torch::optim::AdamW>(parameters);
       }});
  step.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return step;
}

}  // namespace lockstep::train
