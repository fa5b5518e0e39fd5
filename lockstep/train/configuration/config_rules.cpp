// The rules between keys.
#include <lockstep/base/error.h>
#include <lockstep/comm/backends.h>
#include <lockstep/train/callbacks/run_callbacks.h>
#include <lockstep/train/configuration/changes.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/optimizer/parameter_groups.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/resources/run_data.h>
#include <lockstep/train/served/served_tables.h>
#include <lockstep/train/tasks/chosen_metrics.h>

#include <fmt/format.h>

#include <utility>

namespace lockstep::train {
namespace {

template <typename... Args>
[[noreturn]] void contradiction(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::config, "config", format, std::forward<Args>(args)...);
}

void check_length(const TrainConfig& train) {
  if (train.sink_size == 0)
    contradiction("train.sink_size is 0; give the steps of a sink, or -1 for those of an epoch");
  if (train.sink_size > 0 && !train.dataset_sink_mode) {
    contradiction("train.sink_size is {} and train.dataset_sink_mode is false; set it to true", train.sink_size);
  }
  if (!train.epochs && !train.steps) {
    contradiction(
        "neither train.epochs nor train.steps is given, and one of them sets how long to train; give one, e.g. "
        "train.epochs=10");
  }
}

/// The rules of the part that a section names.
template <typename Section, typename Part>
void check_part(const Section& section, const std::vector<Part>& parts) {
  const auto* part = find_part(parts, section.name);
  if (part == nullptr || !part->check) return;
  Section own = section;
  own.options = options_of(section, *part);
  part->check(own);
}

void check_scheduler(const ResolvedRun& config) {
  const auto& scheduler = config.scheduler;
  if (scheduler.warmup_epochs > 0 && scheduler.warmup_steps > 0) {
    contradiction("scheduler.warmup_epochs is {} and scheduler.warmup_steps is {}; give one of them",
                  scheduler.warmup_epochs, scheduler.warmup_steps);
  }
  if (scheduler.min_lr > config.optimizer.lr) {
    contradiction("scheduler.min_lr {} is above optimizer.lr {}", scheduler.min_lr, config.optimizer.lr);
  }
  check_part(scheduler, config.parts->schedules);
}

void check_model(const ResolvedRun& config) {
  if (config.model.weights && config.model.weights->empty()) {
    contradiction("model.weights is empty; give a safetensors or .pth file, or null for random weights");
  }
  const auto renames = renames_of(config.model);
  if (!config.model.weights && (!config.model.weights_key.empty() || !config.model.weights_prefix.empty() ||
                                !config.model.weights_except.empty() || !renames.empty() ||
                                !config.model.weights_strict || config.model.weights_average)) {
    contradiction(
        "model.weights_key, weights_prefix, weights_rename, weights_except, weights_strict and weights_average are "
        "about the file "
        "model.weights, which is not given");
  }
  const auto* part = find_part(config.parts->models, config.model.name);
  const auto& mode = config.parallel.mode;
  if (!config.has_own_model && part != nullptr && !part->divisible && (mode == "semi_auto" || mode == "auto")) {
    contradiction(
        "parallel.mode {} divides parameters among ranks, and those of model.name {} cannot be divided; set "
        "parallel.mode=data_parallel",
        mode, config.model.name);
  }
  if (!config.has_own_model && config.model.name == "mlp" && config.model.channels_last) {
    contradiction("model.channels_last has no meaning for model.name mlp; set it to false");
  }
}

void check_batch(const ResolvedRun& config) {
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

void check_folders(const ResolvedRun& config) {
  if (config.system.work_dir.empty()) contradiction("system.work_dir is empty; give a folder, e.g. out/run1");
  if (!config.has_own_data && data_part(config).shape) {
    auto options = data_options(config.data, data_part(config));
    const auto* root = root_of(options);
    if (root != nullptr && root->empty()) contradiction("data.root is empty; give the folder that holds the data set");
  }
  check_allowed_changes(config);
  if (config.checkpoint.resume.empty()) contradiction("checkpoint.resume is empty; give auto, none or a file");
}

void check_sparse_gradients(const ResolvedRun& config) {
  const auto& mode = config.parallel.mode;
  if ((mode == "semi_auto" || mode == "auto") && takes_rows(config)) {
    contradiction(
        "optimizer.name {} updates rows that a rank has as a whole, and parallel.mode {} divides parameters; set "
        "parallel.mode=data_parallel, or take adam, adagrad or sgd (and model.sparse=false)",
        config.optimizer.name, mode);
  }
  if (config.parallel.sparse_gradients != "rows") return;
  if (config.parallel.shard_optimizer) {
    contradiction(
        "parallel.sparse_gradients rows leaves gradients of embeddings sparse, which "
        "parallel.shard_optimizer cannot divide; set one of them to auto or false");
  }
  if (config.optimizer_factory || takes_rows(config)) return;
  contradiction(
      "parallel.sparse_gradients rows leaves gradients of embeddings sparse, and optimizer.name {} takes no sparse "
      "gradients; take lazy_sgd, lazy_momentum, lazy_adagrad, lazy_adam or ftrl, or set parallel.sparse_gradients to "
      "auto",
      config.optimizer.name);
}

void check_backend(const ResolvedRun& config) {
  const auto& backend = config.parallel.backend;
  if (backend == "auto") return;
  const bool for_cuda = lockstep::detail::is_for_cuda(backend);
  if (for_cuda && config.system.device == "cpu") {
    contradiction(
        "parallel.backend {} carries only CUDA tensors, and system.device is cpu; set parallel.backend to auto, or "
        "system.device to cuda",
        backend);
  }
  if (!config.parallel.encrypt || lockstep::detail::backend_called(backend).encrypts) return;
  contradiction("parallel.encrypt is true, and parallel.backend {} cannot encrypt; set it to auto{}", backend,
                for_cuda ? ", which selects staged for CUDA tensors" : " or tcp");
}

void check_servers(const ResolvedRun& config) {
  if (config.parallel.mode != "parameter_server") return;
  const auto refuse = [](std::string_view key, std::string_view why) {
    contradiction("{} does not go with parallel.mode parameter_server: {}", key, why);
  };
  if (config.train.clip_norm > 0) refuse("train.clip_norm", "no process has all gradients; set it to 0");
  if (config.loss_scaler.type != LossScalerConfig().type) {
    refuse("loss_scaler", "servers do not check for overflows; remove it");
  }
  if (config.parallel.server.staleness > 0 && config.parallel.server.consistency != "bounded") {
    contradiction("parallel.server.staleness is {} and parallel.server.consistency {}; set that to bounded",
                  config.parallel.server.staleness, config.parallel.server.consistency);
  }
  if (most_ahead(config.parallel.server)) {
    if (config.parallel.server.replicas > 1) {
      contradiction(
          "parallel.server.replicas does not go with parallel.server.consistency {}: a copy has the same rows only "
          "where gradients arrive in one order; set it to 1",
          config.parallel.server.consistency);
    }
    if (config.parallel.sync_batch_norm) {
      contradiction(
          "parallel.sync_batch_norm does not go with parallel.server.consistency {}: ranks would wait for each other "
          "in every step; set it to false",
          config.parallel.server.consistency);
    }
  }
  if (config.checkpoint.async) refuse("checkpoint.async", "servers save what they have, not a copy; set it to false");
  if (config.parallel.shard_optimizer) {
    refuse("parallel.shard_optimizer",
           "the optimizers of rows are on the servers, and those of the rest are small; set "
           "it to false");
  }
  if (config.parallel.backend == "mpi") {
    refuse("parallel.backend mpi", "a server communicates with several workers at a time; set it to auto");
  }
}

void check_chosen_options(const ResolvedRun& config) {
  const auto& parts = *config.parts;
  require_own_options(config.optimizer, parts.optimizers, "optimizer.name");
  require_own_options(config.scheduler, parts.schedules, "scheduler.name");
  require_own_options(config.parallel.wrapper, parts.wrappers, "parallel.wrapper.type");
  if (!config.has_own_data) require_own_options(config.data, parts.data, "data.name");
  if (config.has_own_model) return;
  require_own_options(config.model, parts.models, "model.name");
  require_own_options(config.task, parts.tasks, "task.name");
  if (!has_task(config)) require_own_options(config.loss, parts.losses, "loss.name");
}

/// Values that a program sets for what it brings itself: in a file of such a program these keys do not exist. A file of
/// `lockstep train` may have them, of which the program takes the rest.
void check_keys_of_own_parts(const ResolvedRun& config) {
  if (!config.has_own_model && !config.program.entries.empty()) {
    contradiction("the section program is for programs with a model of their own, which read it; remove it");
  }
  if (!config.has_own_model && !config.has_own_data) return;
  const auto refuse = [&](const std::string& key, const std::string& value) {
    const auto dot = key.find('.');
    const auto* section = config.given.find(key.substr(0, dot));
    if (section != nullptr && section->find(key.substr(dot + 1)) != nullptr) return;  // of a file
    fail(ErrorKind::config, key, "is {} and has no effect: the program brings its {}; remove it", value,
         key.starts_with("data.") ? "data" : "model and its task");
  };
  ResolvedRun given({}, config.parts), unset({}, config.parts);  // with the same parts, whose options have defaults
  if (config.has_own_model) {
    if (config.task.name != unset.task.name) refuse("task.name", config.task.name);
    if (config.loss.name != unset.loss.name) refuse("loss.name", config.loss.name);
    given.model = config.model, given.task = config.task, given.loss = config.loss;
    unset.model.name = config.model.name, unset.task.name = config.task.name, unset.loss.name = config.loss.name;
  }
  if (config.has_own_data) given.data = config.data, unset.data.name = config.data.name;
  const auto own = all_settings(config), before = all_settings(unset);
  for (const auto& [key, value] : all_settings(given)) {
    const auto default_value = before.find(key);
    if (own.contains(key) || (default_value != before.end() && default_value->second == value)) continue;
    refuse(key, value);
  }
}

}  // namespace

void check_run_config(const ResolvedRun& config) {
  check_chosen_options(config);
  check_keys_of_own_parts(config);
  check_fields([copy = config](ConfigFields& fields) mutable { describe(fields, copy); });
  check_folders(config);
  check_length(config.train);
  check_part(config.optimizer, config.parts->optimizers);
  group_rules(config);
  if (config.parallel.shard_optimizer && !is_global_mode(config.parallel)) require_elementwise(config);
  check_sparse_gradients(config);
  check_servers(config);
  check_scheduler(config);
  check_model(config);
  check_batch(config);
  node_list_of(config.parallel);
  check_parallel(config);
  check_backend(config);
  check_metrics(config);
  make_used_callbacks(config);
}

}  // namespace lockstep::train
