// The construction of a run's model: seed, module, device, memory format, frozen parameters, recomputation, weights.
#include <lockstep/base/error.h>
#include <lockstep/kernels/tuning.h>
#include <lockstep/models/registry.h>
#include <lockstep/plan/trace/trace_step.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/parameter_names.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/optimizer/parameter_groups.h>
#include <lockstep/train/resources/runtime.h>
#include <lockstep/train/served/served_tables.h>

#include <torch/torch.h>

#include <filesystem>
#include <optional>

namespace lockstep::train {
namespace {

Model made_by(const ResolvedRun& config, const Program& program) {
  if (!program.model || !program.task || !program.data) {
    fail(ErrorKind::invalid_argument, "train", "a Program needs model, task and data; it has no {}",
         !program.model  ? "model"
         : !program.task ? "task"
                         : "data");
  }
  if (program.model.is_module() && (is_global_mode(config.parallel) || is_auto_mode(config.parallel))) {
    fail(ErrorKind::config, "parallel.mode",
         "is {}, which makes the model itself: give the program a function in place of a module, "
         ".model = [] {{ return std::make_shared<Net>(...); }}",
         config.parallel.mode);
  }
  std::optional<models::TablesElsewhere> elsewhere;
  if (is_served_mode(config.parallel)) elsewhere.emplace();
  Model model{program.model(), with_metrics(program.task, metrics_of(config.metrics, config.parts->metrics))};
  if (!model.module) fail(ErrorKind::invalid_argument, "train", "Program::model returned nullptr instead of a module");
  return model;
}

/// Switches on the blocks that parallel.recompute names.
void recompute_blocks(const torch::nn::Module& module, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  std::vector<std::string> names;
  std::vector<Recomputable*> blocks;
  for (const auto& each : module.named_modules()) {
    auto* block = dynamic_cast<Recomputable*>(each.value().get());
    if (block == nullptr) continue;
    names.push_back(each.key());
    blocks.push_back(block);
  }
  if (names.empty()) {
    fail(ErrorKind::config, "config",
         "parallel.recompute: the model has no blocks that can be computed again; remove the key, or derive the blocks "
         "of your own model from lockstep::Recomputable (lockstep/kernels/tuning.h)");
  }
  require_matches(patterns, names, "parallel.recompute");
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (fits_any(names[i], patterns)) blocks[i]->set_recomputed(true);
  }
}

}  // namespace

Model make_model(const ResolvedRun& config, const Program& program, const c10::Device& device) {
  seed_weights(config.system.seed);
  auto model = made_by(config, program);
  model.module->to(device);
  if (config.model.channels_last) to_channels_last(*model.module);
  freeze_parameters(*model.module, config.model.freeze);
  recompute_blocks(*model.module, config.parallel.recompute);
  return model;
}

Model model_without_memory(const ResolvedRun& config, const Program& program) {
  const plan::WithoutMemory scope;
  auto model = made_by(config, program);
  freeze_parameters(*model.module, config.model.freeze);
  recompute_blocks(*model.module, config.parallel.recompute);
  return model;
}

std::vector<std::string> start_from_weights(const Model& model, const ModelConfig& config, WeightsFor purpose) {
  const std::filesystem::path file = *config.weights;
  try {
    return load_weights(*model.module, file,
                        {.key = config.weights_key,
                         .prefix = config.weights_prefix,
                         .except = config.weights_except,
                         .rename = renames_of(config),
                         .strict = config.weights_strict,
                         .whole = purpose == WeightsFor::measuring,
                         .average = config.weights_average});
  } catch (const Error& error) {
    // Another file or another key would help, so the error is of kind config; but a failing disk is not a mistake in
    // the configuration.
    std::error_code unknown;
    if (error.kind() == ErrorKind::io && std::filesystem::exists(file, unknown)) throw;
    throw Error(ErrorKind::config, "model.weights", error.message(), error.position());
  }
}

std::vector<std::string> first_weights(const Model& model, const ResolvedRun& config) {
  std::vector<std::string> remarks;
  const auto* part = config.has_own_model ? nullptr : find_part(config.parts->models, config.model.name);
  if (part != nullptr && part->start) remarks = part->start(options_of(config.model, *part), *model.module);
  if (!config.model.weights) return remarks;
  auto loaded = start_from_weights(model, config.model, WeightsFor::training);
  remarks.push_back(fmt::format("starting from the weights in {}", *config.model.weights));
  remarks.insert(remarks.end(), loaded.begin(), loaded.end());
  return remarks;
}

std::string describe_run(const ResolvedRun& given, const Program& parts) {
  const auto config = resolved_for(parts, given);
  check_run_config(config);
  const auto program = complete_program(parts, config);
  const auto model = make_model(config, program, torch::kCPU);
  return fmt::format("{}\n{}{}{}\n{}", print_config(config), config.origins,
                     program.describe_data ? program.describe_data() : "",
                     describe_groups(config, trained_parameters(*model.module)), models::summarize(*model.module));
}

}  // namespace lockstep::train
