// The steps from parallel.mode auto to a concrete mode: trace, search, agreement of the ranks, and the plan's layout
// written into the configuration as semi_auto or data_parallel.
#include <lockstep/base/error.h>
#include <lockstep/plan/measure/timing.h>
#include <lockstep/plan/report/explain.h>
#include <lockstep/plan/trace/agreed_plan.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/refused_words.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/modes/checked_strategies.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/modes/planned_step.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/modes/verify_plan.h>

#include <torch/torch.h>

#include <filesystem>

namespace lockstep::train {
namespace {

ConfigNode mesh_node(const plan::Plan& plan) {
  auto node = make_section();
  for (std::size_t axis = 0; axis < plan.mesh_sizes.size(); ++axis) {
    node.entries.push_back({plan.mesh_names.at(axis), make_scalar(std::to_string(plan.mesh_sizes[axis]))});
  }
  return node;
}

ConfigNode strategy_node(const plan::Plan& plan) {
  if (plan.operators.empty()) return make_null();
  auto node = make_section();
  for (const auto& [name, strategy] : plan.operators) node.entries.push_back({name, make_scalar(strategy)});
  return node;
}

ConfigNode placements_node(const ModulePlan& named) {
  auto node = make_section();
  for (const auto& [name, placements] : named) node.entries.push_back({name, make_scalar(to_string(placements))});
  return node;
}

plan::PlanRequest plan_request(const ParallelConfig& config, plan::SearchOptions options, int devices) {
  return {.cluster = planned_cluster(config, devices),
          .search = std::move(options),
          .file = config.plan,
          .is_measured = config.verify_plan > 0};
}

/// Whether a batch of one picture is possible on some rank, in some step.
bool may_have_one_picture(const DataConfig& data, int devices) {
  return global_batch_size_of(data, devices) / devices <= 1 || data.remainder != "drop";
}

bool has_buffers(const RunConfig& config, const Program& program) {
  return !model_without_memory(config, program).module->buffers().empty();
}

int parts_of_batch(const plan::Plan& plan) {
  int parts = 1;
  for (std::size_t axis = 0; axis < plan.mesh_sizes.size(); ++axis) {
    if (plan.inputs[axis].is_shard()) parts *= plan.mesh_sizes[axis];
  }
  return parts;
}

}  // namespace

bool is_auto_mode(const ParallelConfig& config) { return config.mode == "auto"; }

plan::SearchOptions search_options(const ParallelConfig& config, int devices) {
  plan::SearchOptions options;
  const bool has_mesh = config.mesh.kind != ConfigNode::Kind::null;
  if (!has_mesh && config.shard.kind != ConfigNode::Kind::null) {
    throw Error(ErrorKind::config, "config",
                "parallel.shard places parameters on the axes of parallel.mesh, which mode auto would choose; give "
                "parallel.mesh, too, e.g. {data: 2, model: 4}",
                config.shard.position);
  }
  if (!has_mesh) return options;
  const auto layout = mesh_layout(config, devices);
  options.mesh = layout.sizes;
  options.constraints.parameters = module_plan(config, layout);
  return options;
}

plan::Cluster planned_cluster(const ParallelConfig& config, int devices) {
  auto cluster =
      plan::resized(config.cluster ? plan::load_cluster(*config.cluster, refused_words()) : plan::Cluster{}, devices);
  if (config.memory_limit_mb) cluster.device.memory = plan::Bytes{*config.memory_limit_mb * 1024 * 1024};
  return cluster;
}

std::int64_t samples_of_step(const RunConfig& config, int devices) {
  return global_batch_size_of(config.data, devices);
}

RunConfig planned_as(RunConfig config, const std::string& mode) {
  auto& parallel = config.parallel;
  parallel.mode = mode;
  parallel.mesh = parallel.shard = parallel.strategy = parallel.dataset_strategy = make_null();
  parallel.cluster.reset();
  parallel.memory_limit_mb.reset();
  parallel.plan.reset();
  parallel.verify_plan = 0;
  parallel.strategy_ckpt_load_file.reset();
  return config;
}

RunConfig as_data_parallel(const RunConfig& config, const Program& program, int devices) {
  if (may_have_one_picture(config.data, devices) && has_buffers(config, program))
    return planned_as(config, "semi_auto");
  RunConfig run = planned_as(config, "data_parallel");
  run.parallel.sync_batch_norm = true;
  run.parallel.buffers = "broadcast";
  return run;
}

RunConfig laid_out_as(const RunConfig& config, const plan::Plan& plan) {
  RunConfig run = planned_as(config, "semi_auto");
  run.parallel.mesh = mesh_node(plan);
  if (!plan.parameters.empty()) run.parallel.shard = placements_node(plan.parameters);
  run.parallel.strategy = strategy_node(plan);
  if (!plan.inputs_by_name.empty()) run.parallel.dataset_strategy = placements_node(plan.inputs_by_name);
  return run;
}

RunConfig with_layout(const RunConfig& config, const plan::Plan& plan) {
  RunConfig run = laid_out_as(config, plan);
  const int ranks_of_part = plan.devices / parts_of_batch(plan);
  if (config.data.eval_batch_size) run.data.eval_batch_size = *config.data.eval_batch_size * ranks_of_part;
  if (!config.data.global_batch_size) run.data.batch_size = global_batch_size_of(config.data, ranks_of_part);
  return run;
}

RunConfig with_plan(const RunConfig& config, const Program& program, const plan::Plan& plan) {
  if (plan::is_data_parallel(plan) && plan.operators.empty() && plan.inputs_by_name.empty())
    return as_data_parallel(config, program, plan.devices);
  return with_layout(config, plan);
}

std::string describe_plan(const RunConfig& config, const Program& program, int devices) {
  if (devices == 1) {
    return "parallel.mode auto plans for several ranks, and this is one. Give --dry-run under the launcher of the "
           "run:\n"
           "  lockstep run --nproc-per-node 2 lockstep train ... --dry-run\n"
           "or make only a plan:\n"
           "  lockstep plan --config FILE --devices 2\n";
  }
  auto [step, options] = planned_search(config, program, devices);
  const auto request = plan_request(config.parallel, std::move(options), devices);
  std::vector<std::string> remarks;
  auto text = explain(find_plan(step.graph, step.seconds, request, remarks));
  for (const auto& remark : remarks) text += remark + "\n";
  return text;
}

AutoRun resolve_auto(const RunConfig& config, const Program& program, const Group& group) {
  AutoRun run;
  const int devices = group.size();
  auto [step, options] = planned_search(config, program, devices);
  const auto request = plan_request(config.parallel, std::move(options), devices);
  const auto plan = find_plan(step.graph, step.seconds, request, run.remarks);
  agree_on(plan, request, group);
  if (group.rank() == 0) {
    try {
      save_plan(plan, std::filesystem::path(config.system.work_dir) / "plan.json");
    } catch (const Error& error) {  // the text is only information
      if (error.kind() != ErrorKind::io) throw;
      run.remarks.push_back("warning: " + error.message());
    }
  }
  run.text = explain(plan);
  run.config = with_plan(config, program, plan);
  if (config.parallel.verify_plan > 0 && may_try_data_parallel(plan, run.remarks)) {
    run.config = faster_of_plan_and_data_parallel(run.config, config, program, group, run.remarks);
  }
  return run;
}

}  // namespace lockstep::train
