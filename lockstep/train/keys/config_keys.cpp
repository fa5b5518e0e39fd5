// The schema of a run's configuration: each section's keys with their rules and one line of documentation.
#include <lockstep/base/log.h>
#include <lockstep/comm/backends.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/part_kinds.h>

#include <array>

namespace lockstep::train {
namespace {

constexpr double kMostSeconds = 1e6;

// The limits keep products of two values, such as with the size of a data set, within 64 bits.
constexpr double kMost = 1e9;        // of epochs, sizes, and other counts
constexpr double kMostSteps = 1e15;  // for a run without an end, which is stopped from outside
constexpr double kMostBatch = 2147483647;
constexpr double kMostMib = 1e6;
constexpr double kMostRate = 1e6;  // a larger rate would overflow float32 within some steps
constexpr double kMostFactor = 1e30;

// These keys change training much, so a value for an optimizer without the key is an error.
constexpr std::array<std::string_view, 2> kTellingOptimizerKeys{"momentum", "nesterov"};

ConfigRule above_to(double low, double high) { return {.low = low, .high = high, .low_excluded = true}; }

/// The keys of all models, including those of programs.
void describe_weights(ConfigFields& fields, ModelConfig& c) {
  fields.field("weights", c.weights, a_path(),
               "safetensors file, .pth of torch.save, .ckpt of MindSpore, index or folder of several files, or "
               "checkpoint to start from; null: random weights");
  fields.field("weights_key", c.weights_key, anything(),
               "the keys of a .pth that lead to its state dict, e.g. net or ema.model; empty: found where that is "
               "clear");
  fields.field("weights_prefix", c.weights_prefix, anything(),
               "what the names in that file begin with and the model's do not, e.g. module.");
  fields.field("weights_rename", c.weights_rename, anything(),
               "beginnings or patterns of the file's other names and what they become, e.g. {body.: \"\", \"*.gamma\": "
               "\"*.weight\"}");
  fields.field("weights_except", c.weights_except, anything(),
               "names or patterns of what keeps its random weights and may be missing in that file, e.g. [fc.*]");
  fields.field("weights_strict", c.weights_strict, anything(),
               "false: take what fits, and log the rest, which keeps its random weights");
  fields.field("weights_average", c.weights_average, anything(),
               "of a checkpoint take the average that the callback ema kept, in place of the trained parameters");
  fields.field("channels_last", c.channels_last, anything(), "NHWC memory, faster for convolutions on many CPUs");
  fields.field("autocast", c.autocast, one_of({"none", "bfloat16", "float16", "O0", "O2", "O3"}),
               "dtype of convolutions and matrix products; O2, O3: float16 on CUDA, bfloat16 on a CPU; O0: none");
  fields.field("freeze", c.freeze, anything(),
               "names or patterns of parameters that are not trained, e.g. [\"conv1.*\", \"layer1.*\"]; batch norm "
               "statistics go on");
}

}  // namespace

std::vector<std::string> parallel_modes() {
  return {"data_parallel", "semi_auto", "auto", "parameter_server", "stand_alone"};
}

void describe(ConfigFields& fields, SystemConfig& c) {
  fields.field("work_dir", c.work_dir, a_path(), "folder for logs, metrics, checkpoints and results; made if missing");
  fields.field("seed", c.seed, at_least(0), "of the initial weights, dropout, shuffling and augmentation");
  fields.field("threads", c.threads, between(1, 1024), "threads of each rank that compute one operation together");
  fields.field(
      "device", c.device, one_of({"auto", "cpu", "cuda", "cuda:N"}),
      "auto: cuda with parallel.backend nccl or staged, and for a single rank where there is one; cuda: the device of "
      "the "
      "local rank; cuda:N: that one, for one rank of a host, or several with parallel.backend staged (docs/gpus.md)");
  fields.field("tf32", c.tf32, one_of({"off", "convolutions", "on"}),
               "on CUDA, float32 products with 10 bits of precision, several times as fast: nowhere, in convolutions "
               "(as libtorch), or everywhere");
  fields.field("log_level", c.log_level, one_of(log_level_names()), "least important lines that are logged");
  fields.field("deterministic", c.deterministic, anything(), "prefer deterministic kernels where there is a choice");
}

namespace {

void describe_wrapper(ConfigFields& fields, ResolvedRun& run) {
  auto& c = run.parallel.wrapper;
  auto names = names_of(run.parts->wrappers);
  names.insert(names.begin(), "");
  fields.field("type", c.type, one_of(std::move(names)),
               "data_parallel, separate: parallel.mode data_parallel; fully_sharded: semi_auto with parameters, "
               "gradients and optimizer divided over all ranks (ZeRO stage 3); empty: as parallel.mode says");
  fields.field("find_unused_parameters", c.find_unused_parameters, anything(),
               "accepted: parameters that a step does not use are always found, at no cost");
  fields.field("broadcast_buffers", c.broadcast_buffers, anything(),
               "parallel.buffers broadcast or local; null: as that says");
  fields.field("prefetch", c.prefetch, between(0, 64),
               "fully_sharded, and wrappers of yours that place parameters: parameters that may be on their way while "
               "an operator computes, before they are needed; 0: none");
  visit_options_of_all(fields, run, c, &Parts::wrappers, "parallel.wrapper.type");
}

}  // namespace

void describe(ConfigFields& fields, ServerConfig& c) {
  fields.field("parameters", c.parameters, anything(),
               "parameters that servers have beside the embedding tables: names or patterns such as fc*.weight; \"*\": "
               "all of them");
  fields.field("consistency", c.consistency, one_of({"sync", "bounded", "async"}),
               "sync: a step has the gradients of all workers, with the result of data_parallel; bounded: a worker may "
               "be `staleness` steps ahead of the slowest; async: any number of steps");
  fields.field("staleness", c.staleness, between(0, 1'000'000),
               "bounded: steps that a worker may be ahead; 0: as sync");
  fields.field("partition", c.partition, one_of({"hash", "range"}),
               "which server has a row: hash: by a hash of table and id; range: equal ranges of ids");
  fields.field("replicas", c.replicas, between(1, 2),
               "2: each server has a copy of the rows of the server before it, from which a lost server's rows come");
  fields.field("slice_kb", c.slice_kb, between(1, 1 << 20),
               "KiB of the pieces into which `parameters` are cut, which are divided among servers");
  fields.field("cache_rows", c.cache_rows, between(0, 1e12),
               "rows that each worker keeps while they do not change, that is, in evaluations; 0: none");
}

namespace {

void describe_parallel(ConfigFields& fields, ResolvedRun& run) {
  auto& c = run.parallel;
  fields.field(
      "mode", c.mode, one_of(parallel_modes()),
      "semi_auto: one logical model over parallel.mesh; auto: the same, laid out by the planner (docs/plan.md); "
      "parameter_server: data_parallel whose embedding tables are on servers (docs/recommendation.md); stand_alone: "
      "one process, no communication");
  fields.field(
      "mesh", c.mesh, anything(),
      "semi_auto: axes and their ranks, e.g. {data: 2, model: 4}; null: {data: all}, in mode auto what is fastest");
  fields.field(
      "shard", c.shard, anything(),
      "semi_auto, auto: parameters by name, e.g. {fc.weight: {model: 0}, \"layer4.*\": \"[Shard(0), Replicate()]\"}");
  fields.field("strategy", c.strategy, anything(),
               "semi_auto, auto: layers and operators by name with the parts of their tensors, e.g. {fc: [[2, 1], [4, "
               "1]], layer1.*.relu: [[2, 4, 1, 1]]}");
  fields.field(
      "dataset_strategy", c.dataset_strategy, anything(),
      "semi_auto, auto: data_parallel: the batch is divided along `data`; full_batch: each rank loads all of "
      "it; or the parts of each input, e.g. {pictures: [2, 1, 1, 1], labels: [2]}; null: data_parallel, in auto "
      "what is fastest");
  fields.field("cluster", c.cluster, a_path(),
               "auto: YAML that describes devices and links, as 'lockstep calibrate' writes it; null: a guess");
  fields.field("memory_limit_mb", c.memory_limit_mb, above_to(0, kMost),
               "auto: MiB that a rank may take; null: the cluster's device memory");
  fields.field("plan", c.plan, a_path(), "auto: file of the plan: used where it is there, written where it is not");
  fields.field("strategy_ckpt_save_file", c.strategy_ckpt_save_file, a_path(),
               "JSON file for the mesh, placements and strategies that the run uses, in the format of 'lockstep plan "
               "--save'");
  fields.field("strategy_ckpt_load_file", c.strategy_ckpt_load_file, a_path(),
               "such a file, which decides on mode, mesh, shard, strategy and dataset_strategy; in all modes");
  fields.field("verify_plan", c.verify_plan, between(0, 1000),
               "auto: steps to try plan and data parallel for; the plan stays if it takes 3 % less; 0: trust the plan");
  fields.field(
      "backend", c.backend, one_of(lockstep::detail::backend_choices()),
      "auto: self alone, shm when all ranks share a host, hierarchy when some do, else tcp; for CUDA tensors nccl "
      "(docs/gpus.md)");
  fields.field("gradients_mean", c.gradients_mean, anything(), "average the ranks' gradients; false: their sum");
  fields.field("bucket_mb", c.bucket_mb, above_to(0, kMostMib), "MiB of gradients that travel together");
  fields.field("first_bucket_mb", c.first_bucket_mb, above_to(0, kMostMib),
               "MiB of the first bucket, so that sending starts early");
  fields.field("sparse_gradients", c.sparse_gradients, one_of({"auto", "rows", "dense"}),
               "data_parallel: how gradients of sparse embeddings travel, with the same numbers. rows: ids and rows of "
               "the step; dense: whole tables; auto: rows where the optimizer takes them");
  fields.field("shard_optimizer", c.shard_optimizer, anything(),
               "each rank updates its share of the parameters and takes the others' (ZeRO stage 1)");
  fields.section(
      "wrapper", [&run](ConfigFields& keys) { describe_wrapper(keys, run); },
      "how the model is wrapped, in MMEngine's words");
  fields.section("server", c.server, "mode parameter_server");
  fields.field("buffers", c.buffers, one_of({"broadcast", "local"}),
               "BatchNorm statistics: rank 0's after each step, or each rank its own until evaluation and checkpoints");
  fields.field("sync_batch_norm", c.sync_batch_norm, anything(),
               "data_parallel: BatchNorm sees all ranks' pictures, as on one rank with all; the others always do so");
  fields.field("recompute", c.recompute, anything(),
               "names or patterns of blocks whose activations are computed again in the backward pass instead of kept, "
               "e.g. [\"blocks.*\"] of gpt: less memory, about a third more work");
  fields.field("check_collectives", c.check_collectives, anything(),
               "compare the ranks' arguments before each collective: finds a rank that is out of step, costs overlap");
  fields.field("encrypt", c.encrypt, anything(),
               "encrypt what travels between hosts, with the certificates of cluster.config_file_path");
  fields.field("timeout_s", c.timeout_s, between(0.001, kMostSeconds), "seconds one collective may take");
  fields.field("start_timeout_s", c.start_timeout_s, between(0.001, kMostSeconds), "seconds to wait for all ranks");
  fields.field("nodes", c.nodes, anything(),
               "list of {addr: ADDRESS}, node 0 first: start the same command on each of them and nothing else");
  fields.field("ctrl_port", c.ctrl_port, between(1, 65535), "port of node 0 where several nodes meet");
  fields.field("devices_per_node", c.devices_per_node, between(1, 4096),
               "ranks that one command starts on a node; null: 1, or what a cloud's variables say");
}

void describe_model(ConfigFields& fields, ResolvedRun& run) {
  auto& c = run.model;
  if (run.has_own_model) {
    fields.field("name", c.name, anything(), "the program's model");
    describe_weights(fields, c);
    return;
  }
  fields.field("name", c.name, required(one_of(names_of(run.parts->models))), "the network");
  visit_options(fields, c, run.parts->models);
  if (!uses_task(run)) {
    fields.field("num_classes", c.num_classes, between(1, kMost), "outputs of the last layer");
    fields.field("hidden", c.hidden, between(1, kMost), "mlp, vgg11: widths of the hidden linear layers");
  }
  describe_weights(fields, c);
}

void describe_loss(ConfigFields& fields, ResolvedRun& run) {
  auto& c = run.loss;
  fields.field("name", c.name, one_of(names_of(run.parts->losses)),
               "cross_entropy_expand: the same value, built of primitive operations");
  fields.field("label_smoothing", c.label_smoothing, from_to_below(0, 1),
               "share of the target spread over all classes");
  visit_options(fields, c, run.parts->losses);
}

void describe_task(ConfigFields& fields, ResolvedRun& run) {
  auto& c = run.task;
  auto names = names_of(run.parts->tasks);
  names.insert(names.begin(), "");
  fields.field("name", c.name, one_of(std::move(names)), "empty: the model's own");
  visit_options(fields, c, run.parts->tasks);
}

void describe_data(ConfigFields& fields, ResolvedRun& run) {
  auto& c = run.data;
  if (run.has_own_data) {
    fields.field("name", c.name, anything(), "the program's data");
    fields.field("root", c.root, a_path(), "folder with the data set's files, for programs that read it");
  } else {
    fields.field("name", c.name, required(one_of(names_of(run.parts->data))), "the data set");
    const auto* part = find_part(run.parts->data, c.name);
    if (part != nullptr && fields.purpose() == ConfigFields::Purpose::printing) {
      c.options = data_options(c, *part).named(part->name);
    }
    visit_options(fields, c, run.parts->data);
    if (part == nullptr) {  // the key of most data sets
      fields.field("root", c.root, required(a_path()), "folder with the data set's files");
    }
  }
  fields.field("batch_size", c.batch_size, between(1, kMostBatch),
               "pictures of one rank in one batch; null: 32, unless global_batch_size is given");
  fields.field("global_batch_size", c.global_batch_size, between(1, kMostBatch),
               "pictures of all ranks in one batch, instead of batch_size: the same training on any number of ranks");
  fields.field("eval_batch_size", c.eval_batch_size, between(1, kMostBatch),
               "pictures of one rank in one batch of evaluation; null: as many as in training");
  fields.field("shuffle", c.shuffle, anything(), "a new order each epoch; false: the order of the files");
  fields.field("shuffle_seed", c.shuffle_seed, at_least(0), "of order and augmentation; null: system.seed");
  fields.field(
      "remainder", c.remainder, one_of({"drop", "exact", "pad"}),
      "records that fill no whole batch on every rank: drop them, use each exactly once (ranks with fewer weigh "
      "less), or pad with records from the start of the order");
  fields.field("workers", c.workers, between(0, 256),
               "threads of each rank that prepare batches; 0: the training thread");
  fields.field("prefetch", c.prefetch, between(1, 4096), "batches prepared ahead");
  if (run.has_own_data) return;
  fields.field("train_transforms", c.train_transforms, anything(), "steps from stored picture to model input");
  fields.field("eval_transforms", c.eval_transforms, anything(),
               "the same for evaluation; null: those of training but the random ones");
}

void describe_optimizer(ConfigFields& fields, ResolvedRun& run) {
  auto& c = run.optimizer;
  fields.field("name", c.name, one_of(names_of(run.parts->optimizers)), "the update rule");
  fields.field("lr", c.lr, c.lr > 0 ? above_to(0, kMostRate) : required(above_to(0, kMostRate)),
               "learning rate before the schedule");
  fields.field("weight_decay", c.weight_decay, between(0, kMostRate),
               "L2 penalty; decoupled from the gradient for some, such as adamw");
  fields.field("base_batch_size", c.base_batch_size, between(1, kMost),
               "samples of one step that lr is for: it is multiplied by their real number over this; null: it is not");
  fields.field("no_decay", c.no_decay, one_of({"norms", "biases"}),
               "parameters without weight decay: biases, and norms (scales and biases of normalization layers)");
  fields.field(
      "groups", c.groups, anything(),
      "list of parameters with their own settings, e.g. [{match: [\"fc.*\"], lr_factor: 10, weight_decay: 0}]");
  visit_options_of_all(fields, run, c, &Parts::optimizers, "optimizer.name", kTellingOptimizerKeys);
}

void describe_scheduler(ConfigFields& fields, ResolvedRun& run) {
  auto& c = run.scheduler;
  fields.field("name", c.name, one_of(names_of(run.parts->schedules)), "how the learning rate changes");
  fields.field("warmup_epochs", c.warmup_epochs, between(0, kMost), "epochs of linear rise at the start");
  fields.field("warmup_steps", c.warmup_steps, between(0, kMostSteps),
               "the same in optimizer steps; give one of the two");
  fields.field("warmup_factor", c.warmup_factor, between(0, 1), "share of lr at which the rise starts");
  fields.field("min_lr", c.min_lr, at_least(0),
               "cosine and polynomial end here, step, multi_step and exponential stop here");
  visit_options_of_all(fields, run, c, &Parts::schedules, "scheduler.name");
}

}  // namespace

void describe(ConfigFields& fields, LossScalerConfig& c) {
  fields.field("type", c.type, one_of({"none", "static", "dynamic"}),
               "static: always the same factor; dynamic: smaller after an overflow, larger after scale_window steps "
               "without one");
  fields.field("loss_scale", c.loss_scale, above_to(0, kMostFactor), "the factor, dynamic: that of the first step");
  fields.field("scale_factor", c.scale_factor, above_to(1, kMostRate),
               "dynamic: what the factor is divided or multiplied by");
  fields.field("scale_window", c.scale_window, between(1, kMostSteps),
               "dynamic: steps without an overflow after which the factor grows");
}

void describe(ConfigFields& fields, TrainConfig& c) {
  fields.field("epochs", c.epochs, between(1, kMost), "passes over the training data");
  fields.field("steps", c.steps, between(1, kMostSteps), "stop after this many optimizer steps, also within an epoch");
  fields.field("accumulate", c.accumulate, between(1, kMost), "batches of each rank in one optimizer step");
  fields.field("clip_norm", c.clip_norm, between(0, 1e30), "largest norm of all gradients together; 0: no limit");
  fields.field("eval_every", c.eval_every, between(0, kMost), "epochs between evaluations; 0: only at the end");
  fields.field("dataset_sink_mode", c.dataset_sink_mode, anything(),
               "callbacks see a step once a sink, as in MindSpore");
  fields.field("sink_size", c.sink_size, between(-1, kMost),
               "dataset_sink_mode: steps of a sink, of which train.epochs are made; -1: those of an epoch");
  fields.field("cuda_graph", c.cuda_graph, anything(),
               "on a CUDA device: record a step once, and launch it as one CUDA graph from then on; where that cannot "
               "be, steps run as written and the run reports why (docs/gpus.md#a-step-without-launch-costs)");
}

void describe(ConfigFields& fields, CheckpointConfig& c) {
  fields.field("folder", c.folder, a_path(), "null: checkpoints/ in system.work_dir");
  fields.field("every_epochs", c.every_epochs, between(0, kMost),
               "epochs between checkpoints; 0: none at epochs' ends");
  fields.field("every_steps", c.every_steps, between(0, kMostSteps),
               "optimizer steps between checkpoints; 0: none within epochs");
  fields.field("every_seconds", c.every_seconds, between(0, 1e9),
               "seconds between checkpoints, by rank 0's clock; 0: none by time");
  fields.field("async", c.async, anything(), "write in the background, from a copy of the state in memory");
  fields.field("keep", c.keep, between(1, kMost), "how many of the newest to keep");
  fields.field("resume", c.resume, a_path(),
               "auto: the newest intact one if there is one; none: start from the beginning; or the path of one");
  fields.field("allow_changes", c.allow_changes, anything(),
               "keys that may differ from the run that is resumed though they shape its result, or true for all");
  fields.field("export_weights", c.export_weights, anything(), "write model.safetensors to system.work_dir at the end");
}

void describe(ConfigFields& fields, CallbacksConfig& c) {
  fields.field("loss_every", c.loss_every, between(0, kMostSteps),
               "steps between lines with the loss; 0: none; unset: about ten lines an epoch");
  fields.field("console_ranks", c.console_ranks, one_of({"first", "all"}), "ranks that print to the console");
  fields.field("progress", c.progress, one_of({"auto", "on", "off"}),
               "progress bar; auto: on a terminal (under mpirun none: use on, for lines)");
  fields.field("metrics_every", c.metrics_every, between(0, kMostSteps),
               "steps between lines in metrics.jsonl; 0: none");
  fields.field("loss_curve", c.loss_curve, anything(), "draw loss.svg from metrics.jsonl");
  fields.field("tensorboard", c.tensorboard, anything(),
               "event files in tensorboard/ for TensorBoard: evaluations, and what metrics.jsonl has");
  fields.field("use", c.use, anything(),
               "list of further callbacks with their keys, e.g. [ema, early_stopping: {metric: accuracy, patience: 3}] "
               "(docs/callbacks.md)");
}

void describe(ConfigFields& fields, ResolvedRun& c) {
  const auto section = [&](std::string_view key, void (*describe_keys)(ConfigFields&, ResolvedRun&),
                           std::string_view doc) {
    fields.section(
        key, [&](ConfigFields& keys) { describe_keys(keys, c); }, doc);
  };
  fields.field("plugins", c.plugins, anything(), "shared libraries that add parts (docs/own_model.md#plugins)");
  fields.field("metrics", c.metrics, anything(),
               "what evaluations measure beside the task's own, e.g. [accuracy, top_k: {k: 5}, f1]");
  fields.section("system", c.system, "where and how each rank runs");
  section("parallel", describe_parallel, "how the ranks work together");
  fields.section("cluster", c.cluster, "a job whose workers meet through a scheduler (docs/scheduler.md)");
  section("model", describe_model, "what is trained");
  if (!c.has_own_model) section("task", describe_task, "what is computed from a batch, and measured");
  if (!c.has_own_model && !has_task(c)) section("loss", describe_loss, "what is minimized");
  section("data", describe_data, "what it is trained on");
  section("optimizer", describe_optimizer, "how weights are updated");
  section("scheduler", describe_scheduler, "how the learning rate changes");
  fields.section("loss_scaler", c.loss_scaler,
                 "a factor of the loss that keeps small gradients from becoming 0 in 16 bits");
  fields.section("train", c.train, "how long, and how one step is made");
  fields.section("checkpoint", c.checkpoint, "what is saved, and where training goes on");
  fields.section("callbacks", c.callbacks, "what is shown and recorded");
  if (c.has_own_model) fields.field("program", c.program, anything(), "the program's own keys");
}

std::vector<std::string> all_keys(const ResolvedRun& config) {
  std::vector<std::string> paths;
  const auto add = [&](std::string_view before, const std::vector<ConfigKey>& keys) {
    for (const auto& key : keys) paths.push_back(std::string(before) + key.path);
  };
  add("", list_fields([copy = config](ConfigFields& fields) mutable { describe(fields, copy); }));
  for_each_kind([&](std::string_view, std::string_view section, auto list) {
    if (is_list_item(section)) return;
    for (auto part : (*config.parts).*list) {
      add(fmt::format("{}.", section), list_fields([&](ConfigFields& fields) { part.options.visit(fields); }));
    }
  });
  return paths;
}

}  // namespace lockstep::train
