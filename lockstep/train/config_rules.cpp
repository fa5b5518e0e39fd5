// The rules between keys.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/train/changes.h>
#include <lockstep/train/config_keys.h>
#include <lockstep/train/mesh_config.h>
#include <lockstep/train/parameter_groups.h>
#include <lockstep/train/parts.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace lockstep::train {
namespace {

constexpr std::int64_t kBatchSize = 32;

template <typename... Args>
[[noreturn]] void contradiction(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::config, "config", format, std::forward<Args>(args)...);
}

void check_length(const TrainConfig& train) {
  if (!train.epochs && !train.steps) {
    contradiction(
        "neither train.epochs nor train.steps says how long to train; give one of them, e.g. train.epochs=10");
  }
}

void check_optimizer(const OptimizerConfig& optimizer) {
  const double momentum = momentum_of(optimizer);
  const bool is_sgd = optimizer.name == "sgd" || optimizer.name == "momentum";
  if (!has_momentum(optimizer.name) && optimizer.momentum) {
    contradiction("optimizer.momentum is {} but optimizer.name {} has no momentum{}; remove optimizer.momentum",
                  *optimizer.momentum, optimizer.name, optimizer.name == "adagrad" ? "" : ", it has betas instead");
  }
  if (!is_sgd && optimizer.nesterov) {
    contradiction("optimizer.nesterov needs optimizer.name sgd or momentum, which is {}", optimizer.name);
  }
  if (optimizer.name == "momentum" && momentum == 0) {
    contradiction("optimizer.momentum is 0 with optimizer.name momentum; use optimizer.name=sgd or a momentum above 0");
  }
  if (optimizer.nesterov && (momentum == 0 || optimizer.dampening != 0)) {
    contradiction("optimizer.nesterov needs optimizer.momentum above 0 and optimizer.dampening 0; they are {} and {}",
                  momentum, optimizer.dampening);
  }
  if (optimizer.betas.size() != 2) {
    contradiction("optimizer.betas must hold 2 numbers, it holds {}", optimizer.betas.size());
  }
  group_rules(optimizer);
}

void check_one_cycle(const SchedulerConfig& scheduler) {
  if (scheduler.warmup_epochs > 0 || scheduler.warmup_steps > 0) {
    contradiction(
        "scheduler.name one_cycle rises by itself (scheduler.pct_start, div_factor); remove scheduler.warmup_epochs "
        "and warmup_steps");
  }
  if (scheduler.min_lr > 0) {
    contradiction(
        "scheduler.min_lr is {} and scheduler.name one_cycle ends at optimizer.lr / div_factor / final_div_factor; "
        "remove scheduler.min_lr",
        scheduler.min_lr);
  }
}

void check_scheduler(const SchedulerConfig& scheduler, const OptimizerConfig& optimizer) {
  if (scheduler.warmup_epochs > 0 && scheduler.warmup_steps > 0) {
    contradiction("scheduler.warmup_epochs is {} and scheduler.warmup_steps is {}; give one of them",
                  scheduler.warmup_epochs, scheduler.warmup_steps);
  }
  if (scheduler.name == "one_cycle") check_one_cycle(scheduler);
  const auto& at = scheduler.milestones;
  if (scheduler.name == "multi_step" && at.empty()) {
    contradiction("scheduler.name multi_step needs scheduler.milestones, e.g. [80, 120]");
  }
  if (std::adjacent_find(at.begin(), at.end(), std::greater_equal<>()) != at.end()) {
    contradiction("scheduler.milestones must ascend, they are [{}]", fmt::join(at, ", "));
  }
  if (scheduler.min_lr > optimizer.lr) {
    contradiction("scheduler.min_lr {} is above optimizer.lr {}", scheduler.min_lr, optimizer.lr);
  }
}

void check_model(const RunConfig& config) {
  if (config.model.weights && config.model.weights->empty()) {
    contradiction("model.weights is empty; give a safetensors or .pth file, or null for random weights");
  }
  const auto renames = renames_of(config.model);
  if (!config.model.weights && (!config.model.weights_prefix.empty() || !config.model.weights_except.empty() ||
                                !renames.empty() || !config.model.weights_strict)) {
    contradiction(
        "model.weights_prefix, weights_rename, weights_except and weights_strict are about the file model.weights, "
        "which is not given");
  }
  if (!config.model.is_own && config.model.name == "mlp" && config.model.channels_last) {
    contradiction("model.channels_last has no meaning for model.name mlp; set it to false");
  }
}

void check_batch(const RunConfig& config) {
  const auto& data = config.data;
  if (!data.global_batch_size) return;
  if (data.batch_size) {
    contradiction(
        "data.batch_size is {} for each rank and data.global_batch_size is {} for all together; give one of them, and "
        "null for the other",
        *data.batch_size, *data.global_batch_size);
  }
  if (!config.parallel.gradients_mean) {
    contradiction(
        "parallel.gradients_mean false makes gradients grow with the number of ranks, which data.global_batch_size "
        "leaves open; set gradients_mean to true, or give data.batch_size instead");
  }
}

void check_folders(const RunConfig& config) {
  if (config.system.work_dir.empty()) contradiction("system.work_dir is empty; give a folder, e.g. out/run1");
  if (config.data.root.empty() && !config.data.is_own && config.data.options_of.empty())
    contradiction("data.root is empty; give the folder that holds the data set");
  check_allowed_changes(config.checkpoint);
  if (config.checkpoint.resume.empty()) contradiction("checkpoint.resume is empty; give auto, none or a file");
}

// Shells replace ~ at the beginning of a word only, which `system.work_dir=~/out` is not.
void expand_home(std::string& path) {
  if (!path.starts_with("~/")) return;
  const auto home = find(current_environment(), "HOME");
  if (!home) contradiction("{} begins with ~, and the variable HOME is not set; write the whole path", path);
  path.replace(0, 1, *home);
}

void expand_home(RunConfig& config) {
  for (auto* path : {&config.system.work_dir, &config.data.root, &config.checkpoint.resume}) expand_home(*path);
  for (auto* path :
       {&config.model.weights, &config.checkpoint.folder, &config.parallel.plan, &config.parallel.cluster}) {
    if (*path) expand_home(**path);
  }
}

}  // namespace

void check_run_config(const RunConfig& config) {
  check_folders(config);
  check_length(config.train);
  check_optimizer(config.optimizer);
  if (config.parallel.shard_optimizer) require_elementwise(config.optimizer);
  check_scheduler(config.scheduler, config.optimizer);
  check_model(config);
  check_batch(config);
  node_list_of(config.parallel);
  check_parallel(config);
}

RunConfig load_run_config(const std::filesystem::path& path, std::span<const std::string> overrides) {
  return load_run_config(path, overrides, std::make_shared<const Parts>(shipped_parts()));
}

RunConfig load_run_config(const std::filesystem::path& path, std::span<const std::string> overrides,
                          std::shared_ptr<const Parts> parts) {
  return read_run_config(load_config(path, overrides), config_with(std::move(parts)));
}

bool uses_task(const ModelConfig& config) { return config.parts && find_part(config.parts->models, config.name); }

RunConfig config_with(std::shared_ptr<const Parts> parts) {
  RunConfig config;
  config.model.parts = config.data.parts = config.task.parts = std::move(parts);
  return config;
}

RunConfig load_program_config(RunConfig defaults, const std::optional<std::filesystem::path>& path,
                              std::span<const std::string> overrides) {
  defaults.model.is_own = defaults.data.is_own = true;
  if (defaults.model.name.empty()) defaults.model.name = "own";
  if (defaults.data.name.empty()) defaults.data.name = "own";
  return read_run_config(path ? load_config(*path, overrides) : parse_config("{}", "the program", overrides),
                         std::move(defaults));
}

RunConfig read_run_config(const ConfigSource& source, RunConfig config) {
  read_config(source, config);
  auto& data = config.data;
  if (!data.batch_size && !data.global_batch_size) data.batch_size = kBatchSize;  // so that it is shown
  expand_home(config);
  check_run_config(config);
  return config;
}

double momentum_of(const OptimizerConfig& config) {
  if (!has_momentum(config.name)) return 0;
  return config.momentum.value_or(config.name == "momentum" || config.name == "lars" ? 0.9 : 0.0);
}

bool has_momentum(std::string_view optimizer) {
  constexpr std::array<std::string_view, 4> kThese{"sgd", "momentum", "lars", "rmsprop"};
  return std::ranges::find(kThese, optimizer) != kThese.end();
}

void require_elementwise(const OptimizerConfig& config) {
  if (config.name != "lars" && config.name != "lamb") return;
  contradiction(
      "optimizer.name {} scales the update of each parameter by the norm of all of it, and parallel.shard_optimizer "
      "divides parameters into pieces; set parallel.shard_optimizer to false (parallel.mode semi_auto divides "
      "optimizer "
      "state for {}, too), or take another optimizer",
      config.name, config.name);
}

bool looks_ahead(std::string_view schedule) {
  return schedule == "cosine" || schedule == "polynomial" || schedule == "one_cycle";
}

std::int64_t global_batch_size_of(const DataConfig& config, int shares) {
  return config.global_batch_size.value_or(config.batch_size.value_or(kBatchSize) * shares);
}

std::uint64_t shuffle_seed_of(const RunConfig& config) {
  return static_cast<std::uint64_t>(config.data.shuffle_seed.value_or(config.system.seed));
}

std::filesystem::path checkpoint_folder_of(const RunConfig& config) {
  if (config.checkpoint.folder) return *config.checkpoint.folder;
  return std::filesystem::path(config.system.work_dir) / "checkpoints";
}

bool saves_checkpoints(const CheckpointConfig& config) {
  return config.every_epochs > 0 || config.every_steps > 0 || config.every_seconds > 0;
}

}  // namespace lockstep::train
