#include <lockstep/base/log.h>
#include <lockstep/data/dataset.h>
#include <lockstep/models/registry.h>
#include <lockstep/train/config_keys.h>
#include <lockstep/train/parts.h>

namespace lockstep::train {
namespace {

constexpr double kMostSeconds = 1e6;

// So that no product of two of them, with the size of a data set for one, leaves 64 bits.
constexpr double kMost = 1e9;        // of epochs, sizes, and whatever else is counted in them
constexpr double kMostSteps = 1e15;  // a run that is to go on until it is stopped
constexpr double kMostBatch = 2147483647;
constexpr double kMostMib = 1e6;
constexpr double kMostRate = 1e6;  // more would leave float32 within some steps
constexpr double kMostFactor = 1e30;

ConfigRule above_to(double low, double high) { return {.low = low, .high = high, .low_excluded = true}; }

/// The names of the parts behind those of `names`.
template <typename Part>
std::vector<std::string> with_parts(std::vector<std::string> names, const std::shared_ptr<const Parts>& parts,
                                    std::vector<Part> Parts::*list) {
  if (!parts) return names;
  for (const auto& part : (*parts).*list) names.push_back(part.name);
  return names;
}

/// The keys of the part that a section names; false when it is none.
template <typename Section, typename Part>
bool visit_part(ConfigFields& fields, Section& section, std::vector<Part> Parts::*list) {
  const auto* part = section.parts ? find_part((*section.parts).*list, section.name) : nullptr;
  if (part == nullptr) return false;
  if (section.options_of != section.name) {
    section.options = part->options;
    section.options_of = section.name;
  }
  section.options.visit(fields);
  return true;
}

/// Of all models, also those of programs.
void describe_weights(ConfigFields& fields, ModelConfig& c) {
  fields.field("weights", c.weights, anything(),
               "safetensors file, or .pth of torch.save, to start from; null: random weights");
  fields.field("weights_prefix", c.weights_prefix, anything(),
               "what the names in that file begin with and the model's do not, e.g. module.");
  fields.field("weights_rename", c.weights_rename, anything(),
               "beginnings or patterns of the file's other names and what they become, e.g. {body.: \"\", \"*.gamma\": "
               "\"*.weight\"}");
  fields.field("weights_except", c.weights_except, anything(),
               "names or patterns of what keeps its random weights and may be missing in that file, e.g. [fc.*]");
  fields.field("weights_strict", c.weights_strict, anything(),
               "false: take what fits, and log the rest, which keeps its random weights");
  fields.field("channels_last", c.channels_last, anything(), "NHWC memory, faster for convolutions on many CPUs");
  fields.field("autocast", c.autocast, one_of({"none", "bfloat16"}), "dtype of convolutions and matrix products");
  fields.field("freeze", c.freeze, anything(),
               "names or patterns of parameters that are not trained, e.g. [\"conv1.*\", \"layer1.*\"]; batch norm "
               "statistics go on");
}

}  // namespace

void describe(ConfigFields& fields, SystemConfig& c) {
  fields.field("work_dir", c.work_dir, anything(),
               "folder for logs, metrics, checkpoints and results; made if missing");
  fields.field("seed", c.seed, at_least(0), "of the initial weights, dropout, shuffling and augmentation");
  fields.field("threads", c.threads, between(1, 1024), "threads of each rank that compute one operation together");
  fields.field("device", c.device, one_of({"auto", "cpu", "cuda"}), "auto: cuda for a single rank where there is one");
  fields.field("log_level", c.log_level, one_of(log_level_names()), "least important lines that are logged");
  fields.field("deterministic", c.deterministic, anything(), "prefer deterministic kernels where there is a choice");
}

void describe(ConfigFields& fields, ParallelConfig& c) {
  fields.field(
      "mode", c.mode, one_of({"data_parallel", "semi_auto", "auto", "stand_alone"}),
      "semi_auto: one logical model over parallel.mesh; auto: the same, laid out by the planner (docs/plan.md); "
      "stand_alone: one process, no communication");
  fields.field(
      "mesh", c.mesh, anything(),
      "semi_auto: axes and their ranks, e.g. {data: 2, model: 4}; null: {data: all}, in mode auto what is fastest");
  fields.field(
      "shard", c.shard, anything(),
      "semi_auto, auto: parameters by name, e.g. {fc.weight: {model: 0}, \"layer4.*\": \"[Shard(0), Replicate()]\"}");
  fields.field("strategy", c.strategy, anything(),
               "semi_auto: layers by name with the parts of their input and weight, e.g. {fc: [[2, 1], [4, 1]]}");
  fields.field("cluster", c.cluster, anything(),
               "auto: YAML that describes devices and links, as 'lockstep calibrate' writes it; null: a guess");
  fields.field("memory_limit_mb", c.memory_limit_mb, above_to(0, kMost),
               "auto: MiB that a rank may take; null: the cluster's device memory");
  fields.field("plan", c.plan, anything(), "auto: file of the plan: used where it is there, written where it is not");
  fields.field("verify_plan", c.verify_plan, between(0, 1000),
               "auto: steps to try plan and data parallel for; the plan stays if it takes 3 % less; 0: trust the plan");
  fields.field("backend", c.backend, one_of({"auto", "self", "shm", "gloo", "mpi", "hierarchy"}),
               "auto: self alone, shm when all ranks share a host, hierarchy when some do, else gloo");
  fields.field("gradients_mean", c.gradients_mean, anything(), "average the ranks' gradients; false: their sum");
  fields.field("bucket_mb", c.bucket_mb, above_to(0, kMostMib), "MiB of gradients that travel together");
  fields.field("first_bucket_mb", c.first_bucket_mb, above_to(0, kMostMib),
               "MiB of the first bucket, so that sending starts early");
  fields.field("shard_optimizer", c.shard_optimizer, anything(),
               "each rank updates its share of the parameters and takes the others' (ZeRO stage 1)");
  fields.field("buffers", c.buffers, one_of({"broadcast", "local"}),
               "BatchNorm statistics: rank 0's after each step, or each rank its own until evaluation and checkpoints");
  fields.field("sync_batch_norm", c.sync_batch_norm, anything(),
               "data_parallel: BatchNorm sees all ranks' pictures, as on one rank with all; the others always do so");
  fields.field("check_collectives", c.check_collectives, anything(),
               "compare the ranks' arguments before each collective: finds a rank that is out of step, costs overlap");
  fields.field("timeout_s", c.timeout_s, between(0.001, kMostSeconds), "seconds one collective may take");
  fields.field("start_timeout_s", c.start_timeout_s, between(0.001, kMostSeconds), "seconds to wait for all ranks");
  fields.field("nodes", c.nodes, anything(),
               "list of {addr: ADDRESS}, node 0 first: start the same command on each of them and nothing else");
  fields.field("ctrl_port", c.ctrl_port, between(1, 65535), "port of node 0 where several nodes meet");
  fields.field("devices_per_node", c.devices_per_node, between(1, 4096),
               "ranks that one command starts on a node; null: 1, or what a cloud's variables say");
}

void describe(ConfigFields& fields, ModelConfig& c) {
  if (c.is_own) {
    fields.field("name", c.name, anything(), "the program's model");
    describe_weights(fields, c);
    return;
  }
  fields.field("name", c.name, required(one_of(with_parts(models::model_names(), c.parts, &Parts::models))),
               "the network");
  if (visit_part(fields, c, &Parts::models)) {
    describe_weights(fields, c);
    return;
  }
  fields.field("num_classes", c.num_classes, between(1, kMost), "outputs of the last layer");
  fields.field("hidden", c.hidden, between(1, kMost), "mlp, vgg11: widths of the hidden linear layers");
  describe_weights(fields, c);
}

void describe(ConfigFields& fields, LossConfig& c) {
  fields.field("name", c.name, one_of({"cross_entropy", "cross_entropy_expand"}),
               "cross_entropy_expand: the same value, built of primitive operations");
  fields.field("label_smoothing", c.label_smoothing, from_to_below(0, 1),
               "share of the target spread over all classes");
}

void describe(ConfigFields& fields, TaskConfig& c) {
  auto names = with_parts({""}, c.parts, &Parts::tasks);
  fields.field("name", c.name, one_of(std::move(names)), "empty: the model's own");
  visit_part(fields, c, &Parts::tasks);
}

void describe(ConfigFields& fields, DataConfig& c) {
  bool is_part = false;
  if (c.is_own) {
    fields.field("name", c.name, anything(), "the program's data");
    fields.field("root", c.root, anything(), "folder with the data set's files, for programs that read it");
  } else {
    fields.field("name", c.name, required(one_of(with_parts(data::dataset_names(), c.parts, &Parts::data))),
                 "the data set");
    is_part = visit_part(fields, c, &Parts::data);
    if (!is_part) fields.field("root", c.root, required(), "folder with the data set's files");
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
  if (c.is_own || is_part) return;
  fields.field("train_transforms", c.train_transforms, anything(), "steps from stored picture to model input");
  fields.field("eval_transforms", c.eval_transforms, anything(),
               "the same for evaluation; null: those of training but the random ones");
}

void describe(ConfigFields& fields, OptimizerConfig& c) {
  fields.field("name", c.name, one_of({"sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad", "lars", "lamb"}),
               "the update rule");
  fields.field("lr", c.lr, c.lr > 0 ? above_to(0, kMostRate) : required(above_to(0, kMostRate)),
               "learning rate before the schedule");
  fields.field("momentum", c.momentum, from_to_below(0, 1), "null: 0 for sgd and rmsprop, 0.9 for momentum and lars");
  fields.field("nesterov", c.nesterov, anything(), "sgd, momentum: Nesterov's form");
  fields.field("dampening", c.dampening, between(0, 1),
               "sgd, momentum: share of the gradient left out of the momentum");
  fields.field("weight_decay", c.weight_decay, between(0, kMostRate),
               "L2 penalty; decoupled from the gradient for adamw and lamb");
  fields.field("betas", c.betas, from_to_below(0, 1), "adam, adamw, lamb: decay of the two moments");
  fields.field("eps", c.eps, above_to(0, kMostRate), "all but sgd and momentum: added to the denominator");
  fields.field("alpha", c.alpha, from_to_below(0, 1), "rmsprop: decay of the mean square");
  fields.field("centered", c.centered, anything(),
               "rmsprop: divide by the gradient's standard deviation, not by the root of its mean square");
  fields.field("lr_decay", c.lr_decay, between(0, kMostRate),
               "adagrad: step t has the learning rate lr / (1 + (t - 1) * lr_decay)");
  fields.field("initial_accumulator", c.initial_accumulator, between(0, kMostRate),
               "adagrad: the sum of squares before the first step");
  fields.field("trust_coefficient", c.trust_coefficient, above_to(0, kMostRate), "lars: factor of the trust ratio");
  fields.field("max_weight_norm", c.max_weight_norm, above_to(0, kMostFactor),
               "lamb: larger norms of parameters count as this");
  fields.field("adapt_1d", c.adapt_1d, anything(),
               "lars, lamb: false: parameters of one dimension are updated without the trust ratio");
  fields.field("no_decay", c.no_decay, one_of({"norms", "biases"}),
               "parameters without weight decay: biases, and norms (scales and biases of normalization layers)");
  fields.field(
      "groups", c.groups, anything(),
      "list of parameters with their own settings, e.g. [{match: [\"fc.*\"], lr_factor: 10, weight_decay: 0}]");
}

void describe(ConfigFields& fields, SchedulerConfig& c) {
  fields.field("name", c.name,
               one_of({"constant", "step", "multi_step", "exponential", "cosine", "polynomial", "one_cycle"}),
               "how the learning rate changes");
  fields.field("warmup_epochs", c.warmup_epochs, between(0, kMost), "epochs of linear rise at the start");
  fields.field("warmup_steps", c.warmup_steps, between(0, kMostSteps),
               "the same in optimizer steps; give one of the two");
  fields.field("warmup_factor", c.warmup_factor, between(0, 1), "share of lr at which the rise starts");
  fields.field("unit", c.unit, one_of({"epochs", "steps"}),
               "what step_size, milestones and exponential's decays count");
  fields.field("step_size", c.step_size, between(1, kMost), "step: distance between two decays");
  fields.field("milestones", c.milestones, between(1, kMost), "multi_step: when to decay, ascending");
  fields.field("gamma", c.gamma, between(0, 1), "step, multi_step, exponential: factor of one decay");
  fields.field("min_lr", c.min_lr, at_least(0),
               "cosine and polynomial end here, step, multi_step and exponential stop here");
  fields.field("power", c.power, above_to(0, 1000), "polynomial: 1 is a straight line");
  fields.field("pct_start", c.pct_start, from_to_below(0, 1),
               "one_cycle: share of the run in which the learning rate rises");
  fields.field("anneal", c.anneal, one_of({"cosine", "linear"}), "one_cycle: shape of rise and fall");
  fields.field("div_factor", c.div_factor, between(1, kMostFactor), "one_cycle: begins at lr / div_factor");
  fields.field("final_div_factor", c.final_div_factor, above_to(0, kMostFactor),
               "one_cycle: ends at lr / div_factor / final_div_factor");
}

void describe(ConfigFields& fields, TrainConfig& c) {
  fields.field("epochs", c.epochs, between(1, kMost), "passes over the training data");
  fields.field("steps", c.steps, between(1, kMostSteps), "stop after this many optimizer steps, also within an epoch");
  fields.field("accumulate", c.accumulate, between(1, kMost), "batches of each rank in one optimizer step");
  fields.field("clip_norm", c.clip_norm, between(0, 1e30), "largest norm of all gradients together; 0: no limit");
  fields.field("eval_every", c.eval_every, between(0, kMost), "epochs between evaluations; 0: only at the end");
}

void describe(ConfigFields& fields, CheckpointConfig& c) {
  fields.field("folder", c.folder, anything(), "null: checkpoints/ in system.work_dir");
  fields.field("every_epochs", c.every_epochs, between(0, kMost),
               "epochs between checkpoints; 0: none at epochs' ends");
  fields.field("every_steps", c.every_steps, between(0, kMostSteps),
               "optimizer steps between checkpoints; 0: none within epochs");
  fields.field("every_seconds", c.every_seconds, between(0, 1e9),
               "seconds between checkpoints, by rank 0's clock; 0: none by time");
  fields.field("async", c.async, anything(), "write in the background, from a copy of the state in memory");
  fields.field("keep", c.keep, between(1, kMost), "how many of the newest to keep");
  fields.field("resume", c.resume, anything(),
               "auto: the newest intact one if there is one; none: start anew; or a file");
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
}

void describe(ConfigFields& fields, RunConfig& c) {
  fields.section("system", c.system, "where and how each rank runs");
  fields.section("parallel", c.parallel, "how the ranks work together");
  fields.section("cluster", c.cluster, "a job whose workers meet through a scheduler (docs/scheduler.md)");
  fields.section("model", c.model, "what is trained");
  if (uses_task(c.model)) fields.section("task", c.task, "what is computed from a batch, and measured");
  if (!c.model.is_own && !uses_task(c.model)) fields.section("loss", c.loss, "what is minimized");
  fields.section("data", c.data, "what it is trained on");
  fields.section("optimizer", c.optimizer, "how weights are updated");
  fields.section("scheduler", c.scheduler, "how the learning rate changes");
  fields.section("train", c.train, "how long, and how one step is made");
  fields.section("checkpoint", c.checkpoint, "what is saved, and where training goes on");
  fields.section("callbacks", c.callbacks, "what is shown and recorded");
  if (c.model.is_own) fields.field("program", c.program, anything(), "the program's own keys");
}

}  // namespace lockstep::train
