// The conversion between a run's layout and a plan file, in both directions.
#include <lockstep/base/error.h>
#include <lockstep/plan/trace/agreed_plan.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/modes/strategies.h>
#include <lockstep/train/modes/strategy_file.h>
#include <lockstep/train/modes/wrapper.h>

#include <torch/torch.h>

namespace lockstep::train {
namespace {

constexpr const char* kOthers = "*";

plan::Plan global_layout(const RunConfig& config, const torch::nn::Module& module, int devices) {
  std::vector<std::string> names;
  for (const auto& each : module.named_parameters()) names.push_back(each.key());
  for (const auto& each : module.named_buffers()) names.push_back(each.key());
  const auto mesh = mesh_layout(config.parallel, devices);
  auto batch = batch_layout(config.parallel, mesh);
  plan::Plan plan;
  plan.mesh_sizes = mesh.sizes;
  plan.mesh_names = mesh.names;
  plan.inputs = std::move(batch.loaded);
  plan.inputs_by_name.assign(batch.inputs.begin(), batch.inputs.end());
  plan.parameters =
      with_wrapper_placements(whole_plan(config.parallel, mesh, names), config.parallel.wrapper, mesh, module);
  for (const auto& each : read_strategies(config.parallel, names).operators) {
    plan.operators.emplace_back(global::name_of(*each), global::strategy_text(*each));
  }
  return plan;
}

plan::Plan mirrored_layout(int devices) {
  plan::Plan plan;
  plan.mesh_sizes = {devices};
  plan.mesh_names = {"data"};
  plan.inputs = {Shard(0)};
  return plan;
}

}  // namespace

plan::Plan layout_of_run(const RunConfig& config, const Program& program, int devices) {
  const auto module = model_without_memory(config, program).module;
  const bool global = is_global_mode(config.parallel);
  auto plan = global ? global_layout(config, *module, devices) : mirrored_layout(devices);
  plan.mode = global ? "semi_auto" : "data_parallel";
  plan.devices = devices;
  if (plan.parameters.empty() || plan.parameters.back().first != kOthers) {
    plan.parameters.emplace_back(kOthers, Placements(plan.mesh_sizes.size()));
  }
  for (const auto& each : module->named_parameters()) {
    plan.known.push_back({.name = each.key(), .sizes = each.value().sizes().vec()});
  }
  return plan;
}

void save_strategy_file(const RunConfig& config, const Program& program, int devices) {
  if (!config.parallel.strategy_ckpt_save_file) return;
  plan::save_plan(layout_of_run(config, program, devices), *config.parallel.strategy_ckpt_save_file);
}

RunConfig with_strategy_file(const RunConfig& config, const Program& program, const Group& group) {
  const auto& file = *config.parallel.strategy_ckpt_load_file;
  const auto plan = plan::load_plan(file);
  if (plan.devices != group.size()) {
    fail(ErrorKind::config, "parallel.strategy_ckpt_load_file",
         "{} is for {} rank(s), but these are {}; start as many, or remove the key", file, plan.devices, group.size());
  }
  plan::agree_on(plan, {.cluster = {}, .search = {}, .file = {}}, group);
  const auto& mode = config.parallel.mode;
  if (mode == "stand_alone") return config;  // one rank, whatever the layout
  if (plan.mode == "data_parallel") {
    return mode == plan.mode ? config : as_data_parallel(config, program, group.size());
  }
  if (mode == "semi_auto") return laid_out_as(config, plan);
  // In this file, data.batch_size is the batch of one rank, as in the planner.
  return plan.mode.empty() ? with_plan(config, program, plan) : with_layout(config, plan);
}

}  // namespace lockstep::train
