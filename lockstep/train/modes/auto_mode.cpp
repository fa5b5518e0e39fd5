// The steps from parallel.mode auto to a concrete mode: trace, search, agreement of the ranks, and the plan's layout
// written into the configuration as semi_auto or data_parallel; a plan timed against data parallel with the run's own
// data; and the conversion between a run's layout and a plan file.
#include <lockstep/base/error.h>
#include <lockstep/plan/measure/measure.h>
#include <lockstep/plan/report/explain.h>
#include <lockstep/plan/trace/agreed_plan.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/foreign_tables.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/modes/parallel_run.h>
#include <lockstep/train/modes/planned_run.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/modes/strategies.h>
#include <lockstep/train/modes/wrapper.h>
#include <lockstep/train/resources/run_data.h>
#include <lockstep/train/resources/runtime.h>

#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <vector>

namespace lockstep::train {
namespace {

constexpr const char* kOthers = "*";

plan::Plan global_layout(const ResolvedRun& config, const torch::nn::Module& module, int devices) {
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
  plan.parameters = with_wrapper_placements(whole_plan(config.parallel, mesh, names), config, mesh, module);
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

bool has_buffers(const ResolvedRun& config, const Program& program) {
  return !model_without_memory(config, program).module->buffers().empty();
}

int parts_of_batch(const plan::Plan& plan) {
  int parts = 1;
  for (std::size_t axis = 0; axis < plan.mesh_sizes.size(); ++axis) {
    if (plan.inputs[axis].is_shard()) parts *= plan.mesh_sizes[axis];
  }
  return parts;
}

/// The clock cannot resolve smaller differences. Data parallel is then preferred because it is simpler: each rank has
/// the whole model.
constexpr double kClearlyLess = 0.97;

/// The median step. The first step does not count, because it allocates what later steps reuse.
double measured_step(const ResolvedRun& config, const Program& program, const Group& group, int wanted) {
  const auto share = data_share(config, group);
  const auto data = load_train_data(config, program, share.index, share.count);
  const auto options = forward_options(config, choose_device(config, group));
  const auto model = make_model(config, program, options.device);
  const auto run = make_parallel_run(config, model, group, options);
  seed_rank(config.system.seed, run->random_stream(), 0);
  const auto batches = data.batches(options.device);
  const auto of_epoch = data.sampler.steps_per_epoch();
  std::vector<double> times;
  model.module->train();
  for (std::int64_t i = 0; i <= wanted; ++i) {
    if (i % of_epoch == 0) batches->start(i / of_epoch, 0);
    const double seconds = plan::seconds_of_slowest(group, [&] {
      run->step({.batches = 1,
                 .samples = data.sampler.global_batch_size(i % of_epoch),
                 .lr = 0,
                 .epoch = 1,
                 .step_in_epoch = 1},
                *batches);
    });
    if (i > 0) times.push_back(seconds);  // the first step is a warm-up
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// The same run in another mode, without the settings for planning.
ResolvedRun planned_as(ResolvedRun config, const std::string& mode) {
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

/// The same run in mode data_parallel, whose batch norms see the whole batch as they do in any layout. In mode
/// semi_auto if the model has batch norms and a rank may have a single picture: libtorch's batch norms reject a single
/// picture of one position.
ResolvedRun as_data_parallel(const ResolvedRun& config, const Program& program, int devices) {
  if (may_have_one_picture(config.data, devices) && has_buffers(config, program))
    return planned_as(config, "semi_auto");
  ResolvedRun run = planned_as(config, "data_parallel");
  run.parallel.sync_batch_norm = true;
  run.parallel.buffers = "broadcast";
  return run;
}

/// `planned` or data parallel, whichever plan::beats_data_parallel() prefers, measured in turns over
/// parallel.verify_plan steps with the run's own data; their results are discarded. `asked` is the user's configuration
/// before planning. Adds the measurements to `remarks`. A collective, with the same result on all ranks.
ResolvedRun faster_of_plan_and_data_parallel(const ResolvedRun& planned, const ResolvedRun& asked,
                                             const Program& program, const Group& group,
                                             std::vector<std::string>& remarks) {
  const auto plain = as_data_parallel(asked, program, group.size());
  const auto measured = [&](const ResolvedRun& config) {
    return [&config, &program, &group](int steps) { return measured_step(config, program, group, steps); };
  };
  const auto steps = static_cast<int>(asked.parallel.verify_plan);
  return plan::beats_data_parallel(steps, kClearlyLess, measured(planned), measured(plain), remarks) ? planned : plain;
}

/// laid_out_as(), with batches of such a size that a step has as many samples as in data_parallel.
ResolvedRun with_layout(const ResolvedRun& config, const plan::Plan& plan) {
  ResolvedRun run = laid_out_as(config, plan);
  const int ranks_of_part = plan.devices / parts_of_batch(plan);
  if (config.data.eval_batch_size) run.data.eval_batch_size = *config.data.eval_batch_size * ranks_of_part;
  if (!config.data.global_batch_size) run.data.batch_size = global_batch_size_of(config.data, ranks_of_part);
  return run;
}

/// The layout of a run in mode data_parallel, semi_auto or stand_alone: its mesh, placements and strategies, without
/// costs. Parameters that no pattern names are replicated, by a last pattern "*".
plan::Plan layout_of_run(const ResolvedRun& config, const Program& program, int devices) {
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

}  // namespace

void save_strategy_file(const ResolvedRun& config, const Program& program, int devices) {
  if (!config.parallel.strategy_ckpt_save_file) return;
  plan::save_plan(layout_of_run(config, program, devices), *config.parallel.strategy_ckpt_save_file);
}

ResolvedRun with_strategy_file(const ResolvedRun& config, const Program& program, const Group& group) {
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

std::int64_t samples_of_step(const ResolvedRun& config, int devices) {
  return global_batch_size_of(config.data, devices);
}

ResolvedRun laid_out_as(const ResolvedRun& config, const plan::Plan& plan) {
  ResolvedRun run = planned_as(config, "semi_auto");
  run.parallel.mesh = mesh_node(plan);
  if (!plan.parameters.empty()) run.parallel.shard = placements_node(plan.parameters);
  run.parallel.strategy = strategy_node(plan);
  if (!plan.inputs_by_name.empty()) run.parallel.dataset_strategy = placements_node(plan.inputs_by_name);
  return run;
}

ResolvedRun with_plan(const ResolvedRun& config, const Program& program, const plan::Plan& plan) {
  if (plan::is_data_parallel(plan) && plan.operators.empty() && plan.inputs_by_name.empty())
    return as_data_parallel(config, program, plan.devices);
  return with_layout(config, plan);
}

std::string describe_plan(const ResolvedRun& config, const Program& program, int devices) {
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

AutoRun resolve_auto(const ResolvedRun& config, const Program& program, const Group& group) {
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
