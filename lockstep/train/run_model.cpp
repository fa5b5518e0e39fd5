#include <lockstep/base/error.h>
#include <lockstep/kernels/channels_last.h>
#include <lockstep/models/registry.h>
#include <lockstep/plan/trace/without_memory.h>
#include <lockstep/train/config_keys.h>
#include <lockstep/train/freeze.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/parameter_groups.h>
#include <lockstep/train/run_model.h>
#include <lockstep/train/runtime.h>
#include <lockstep/train/safetensors.h>

#include <torch/torch.h>

#include <filesystem>

namespace lockstep::train {
namespace {

Model made_by(const Program& program) {
  if (!program.model || !program.task || !program.data) {
    fail(ErrorKind::invalid_argument, "train", "a Program needs model, task and data; it has no {}",
         !program.model  ? "model"
         : !program.task ? "task"
                         : "data");
  }
  Model model{program.model(), program.task};
  if (!model.module) fail(ErrorKind::invalid_argument, "train", "Program::model gave no module, but nullptr");
  return model;
}

}  // namespace

Model make_model(const RunConfig& config, const Program& program, const c10::Device& device) {
  seed_weights(config.system.seed);
  auto model = made_by(program);
  model.module->to(device);
  if (config.model.channels_last) to_channels_last(*model.module);
  freeze_parameters(*model.module, config.model.freeze);
  return model;
}

Model model_without_memory(const RunConfig& config, const Program& program) {
  const plan::WithoutMemory scope;
  auto model = made_by(program);
  freeze_parameters(*model.module, config.model.freeze);
  return model;
}

std::vector<std::string> start_from_weights(const Model& model, const ModelConfig& config) {
  const std::filesystem::path file = *config.weights;
  try {
    return load_weights(*model.module, file,
                        {config.weights_prefix, config.weights_except, renames_of(config), config.weights_strict});
  } catch (const Error& error) {
    // Another file, or another key beside it, would do; but a disk that fails is not the configuration's mistake.
    std::error_code unknown;
    if (error.kind() == ErrorKind::io && std::filesystem::exists(file, unknown)) throw;
    throw Error(ErrorKind::config, "model.weights", error.message(), error.position());
  }
}

std::string describe_run(const RunConfig& config, const Program& program) {
  check_run_config(config);
  const auto model = make_model(config, program, torch::kCPU);
  return fmt::format("{}\n{}{}\n{}", print_config(config), program.describe_data ? program.describe_data() : "",
                     describe_groups(config.optimizer, trainable_parameters(*model.module)),
                     models::summarize(*model.module));
}

}  // namespace lockstep::train
