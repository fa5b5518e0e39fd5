#include <lockstep/base/error.h>
#include <lockstep/kernels/channels_last.h>
#include <lockstep/train/freeze.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/parameter_groups.h>
#include <lockstep/train/run_data.h>
#include <lockstep/train/run_model.h>
#include <lockstep/train/runtime.h>
#include <lockstep/train/safetensors.h>

#include <torch/torch.h>

#include <filesystem>

namespace lockstep::train {
namespace {

std::string text(const data::PictureShape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

}  // namespace

models::ModelSpec model_spec(const RunConfig& config) {
  const auto input = make_pipeline(config.data, data::Split::train).output();
  const auto eval_input = make_pipeline(config.data, data::Split::test).output();
  if (!(input == eval_input)) {
    fail(ErrorKind::config, "data",
         "data.train_transforms makes pictures of {}, data.eval_transforms of {}; they must be the same", text(input),
         text(eval_input));
  }
  return {config.model.name, config.model.num_classes, input.channels,
          static_cast<std::int64_t>(data::picture_size(input)), config.model.hidden};
}

models::Classifier make_model(const RunConfig& config, const c10::Device& device) {
  seed_weights(config.system.seed);
  auto model = models::make_classifier(model_spec(config));
  model.module->to(device);
  if (config.model.channels_last) to_channels_last(*model.module);
  freeze_parameters(*model.module, config.model.freeze);
  return model;
}

void start_from_weights(const models::Classifier& model, const ModelConfig& config) {
  const std::filesystem::path file = *config.weights;
  try {
    load_weights(*model.module, file, {config.weights_prefix, config.weights_except});
  } catch (const Error& error) {
    // Another file, or another key beside it, would do; but a disk that fails is not the configuration's mistake.
    std::error_code unknown;
    if (error.kind() == ErrorKind::io && std::filesystem::exists(file, unknown)) throw;
    throw Error(ErrorKind::config, "model.weights", error.message(), error.position());
  }
}

std::string describe_run(const RunConfig& config) {
  check_run_config(config);
  const auto model = make_model(config, torch::kCPU);
  return fmt::format("{}\n# training pictures:   {}\n# evaluation pictures: {}\n{}\n{}", print_config(config),
                     make_pipeline(config.data, data::Split::train).describe(),
                     make_pipeline(config.data, data::Split::test).describe(),
                     describe_groups(config.optimizer, trainable_parameters(*model.module)),
                     models::summarize(*model.module));
}

}  // namespace lockstep::train
