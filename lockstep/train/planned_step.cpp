#include <lockstep/models/registry.h>
#include <lockstep/plan/trace/trace_step.h>
#include <lockstep/plan/trace/without_memory.h>
#include <lockstep/train/clip_gradients.h>
#include <lockstep/train/forward.h>
#include <lockstep/train/freeze.h>
#include <lockstep/train/loss.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/planned_step.h>
#include <lockstep/train/run_data.h>
#include <lockstep/train/run_model.h>

#include <torch/torch.h>

#include <chrono>

namespace lockstep::train {

models::Classifier model_without_memory(const RunConfig& config) {
  const plan::WithoutMemory scope;
  auto model = models::make_classifier(model_spec(config));
  freeze_parameters(*model.module, config.model.freeze);
  return model;
}

PlannedStep trace_run(const RunConfig& config, std::int64_t pictures) {
  const auto start = std::chrono::steady_clock::now();
  const auto model = model_without_memory(config);
  const auto shape = make_pipeline(config.data, data::Split::train).output();
  const auto options = forward_options(config, torch::kCPU);
  const double clip_norm = config.train.clip_norm;
  PlannedStep step;
  step.graph = plan::trace_step(
      {.module = model.module.get(),
       .inputs = {{.name = "pictures", .sizes = {pictures, shape.channels, shape.height, shape.width}},
                  {.name = "labels", .sizes = {pictures}, .dtype = torch::kLong}},
       .loss =
           [&](const std::vector<at::Tensor>& in) {
             return classification_loss(options.loss, model.forward(in[0]), in[1], options.label_smoothing);
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
