// The configuration of a training run: the content of one YAML file as plain values.
//
// Each member has the name of its key, and its initial value is the key's default; an optional without a value is null.
// Paths may begin with "~/" only in a file. Value ranges are checked when a file is read. Values that a program sets
// itself are not range-checked: check_run_config() checks the rules between keys only. Plain values: copies are
// independent, and reading them from several threads is safe. docs/configuration.md shows files; docs/environment.md
// lists the variables that override some keys.
#pragma once

#include <lockstep/base/config_node.h>
#include <lockstep/base/part_options.h>
#include <lockstep/world/cluster_options.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::train {

struct Parts;

/// The section `system`: where and how each rank runs (docs/configuration.md#system).
struct SystemConfig {
  /// folder for logs, metrics, checkpoints and results; made if missing.
  std::string work_dir = "out";
  /// of the initial weights, dropout, shuffling and augmentation. Allowed: at least 0.
  std::int64_t seed = 1;
  /// threads of each rank that compute one operation together. Allowed: from 1 to 1024.
  std::int64_t threads = 1;
  /// auto: cuda for a single rank where there is one. Allowed: auto, cpu, cuda.
  std::string device = "auto";
  /// least important lines that are logged. Allowed: debug, info, warning, error, off.
  std::string log_level = "info";
  /// prefer deterministic kernels where there is a choice.
  bool deterministic = true;
};

/// The section `parallel`: how the ranks work together (docs/configuration.md#parallel).
struct ParallelConfig {
  /// semi_auto: one logical model over parallel.mesh; auto: the same, laid out by the planner (docs/plan.md);
  /// stand_alone: one process, no communication. Allowed: data_parallel, semi_auto, auto, stand_alone.
  std::string mode = "data_parallel";
  /// auto: self alone, shm when all ranks share a host, hierarchy when some do, else gloo. Allowed: auto, self, shm,
  /// gloo, mpi, hierarchy.
  std::string backend = "auto";
  /// average the ranks' gradients; false: their sum.
  bool gradients_mean = true;
  /// MiB of gradients that travel together. Allowed: above 0 and at most 1000000.
  double bucket_mb = 25;
  /// MiB of the first bucket, so that sending starts early. Allowed: above 0 and at most 1000000.
  double first_bucket_mb = 1;
  /// each rank updates its share of the parameters and takes the others' (ZeRO stage 1).
  bool shard_optimizer = false;
  /// BatchNorm statistics: rank 0's after each step, or each rank its own until evaluation and checkpoints. Allowed:
  /// broadcast, local.
  std::string buffers = "broadcast";
  /// data_parallel: BatchNorm sees all ranks' pictures, as on one rank with all; the others always do so.
  bool sync_batch_norm = false;
  /// compare the ranks' arguments before each collective: finds a rank that is out of step, costs overlap.
  bool check_collectives = false;
  /// semi_auto: axes and their ranks, e.g. {data: 2, model: 4}; null: {data: all}, in mode auto what is fastest.
  ConfigNode mesh;
  /// semi_auto, auto: parameters by name, e.g. {fc.weight: {model: 0}, "layer4.*": "[Shard(0), Replicate()]"}.
  ConfigNode shard;
  /// semi_auto: layers by name with the parts of their input and weight, e.g. {fc: [[2, 1], [4, 1]]}.
  ConfigNode strategy;
  /// auto: YAML that describes devices and links, as 'lockstep calibrate' writes it; null: a guess.
  std::optional<std::string> cluster;
  /// auto: MiB that a rank may take; null: the cluster's device memory. Allowed: above 0 and at most 1000000000.
  std::optional<double> memory_limit_mb;
  /// auto: file of the plan: used where it is there, written where it is not.
  std::optional<std::string> plan;
  /// auto: steps to try plan and data parallel for; the plan stays if it takes 3 % less; 0: trust the plan. Allowed:
  /// from 0 to 1000.
  std::int64_t verify_plan = 0;
  /// seconds one collective may take. Allowed: from 0.001 to 1000000.
  double timeout_s = 600;
  /// seconds to wait for all ranks. Allowed: from 0.001 to 1000000.
  double start_timeout_s = 300;
  /// list of {addr: ADDRESS}, node 0 first: start the same command on each of them and nothing else.
  ConfigNode nodes;
  /// port of node 0 where several nodes meet. Allowed: from 1 to 65535.
  std::optional<std::int64_t> ctrl_port;
  /// ranks that one command starts on a node; null: 1, or what a cloud's variables say. Allowed: from 1 to 4096.
  std::optional<std::int64_t> devices_per_node;
};

/// The section `model`: what is trained (docs/configuration.md#model).
struct ModelConfig {
  bool is_own = false;  ///< no key: a program brings the model (program.h), and `name` is its own name for it
  std::shared_ptr<const Parts> parts{};  ///< no key: the models beside the pictures' (parts.h)
  PartOptions options{};                 ///< the keys of the model `name`, where it is one of those
  std::string options_of{};              ///< no key: the model that has those
  /// the network. Required, resnet18, resnet34, resnet50, resnet20, mlp, lenet5, vgg11.
  std::string name;
  /// outputs of the last layer. Allowed: from 1 to 1000000000.
  std::int64_t num_classes = 10;
  /// mlp, vgg11: widths of the hidden linear layers. Allowed: from 1 to 1000000000.
  std::vector<std::int64_t> hidden = {1024, 1024};
  /// safetensors file, or .pth of torch.save, to start from; null: random weights.
  std::optional<std::string> weights;
  /// what the names in that file begin with and the model's do not, e.g. module..
  std::string weights_prefix;
  /// beginnings or patterns of the file's other names and what they become, e.g. {body.: "", "*.gamma": "*.weight"}.
  ConfigNode weights_rename;
  /// names or patterns of what keeps its random weights and may be missing in that file, e.g. [fc.*].
  std::vector<std::string> weights_except;
  /// false: take what fits, and log the rest, which keeps its random weights.
  bool weights_strict = true;
  /// NHWC memory, faster for convolutions on many CPUs.
  bool channels_last = false;
  /// dtype of convolutions and matrix products. Allowed: none, bfloat16.
  std::string autocast = "none";
  /// names or patterns of parameters that are not trained, e.g. ["conv1.*", "layer1.*"]; batch norm statistics go on.
  std::vector<std::string> freeze;
};

/// The section `loss`: what is minimized (docs/configuration.md#loss).
struct LossConfig {
  /// cross_entropy_expand: the same value, built of primitive operations. Allowed: cross_entropy, cross_entropy_expand.
  std::string name = "cross_entropy";
  /// share of the target spread over all classes. Allowed: at least 0 and below 1.
  double label_smoothing = 0;
};

/// The section `task` of models that are no classifiers of pictures: what is computed from a batch, and measured.
struct TaskConfig {
  std::shared_ptr<const Parts> parts{};  ///< no key: the tasks (parts.h)
  PartOptions options{};                 ///< the keys of the task `name`
  std::string options_of{};              ///< no key: the task that has those
  /// empty: the model's own.
  std::string name;
};

/// The section `data`: what it is trained on (docs/configuration.md#data).
struct DataConfig {
  bool is_own = false;                   ///< no key: a program brings the data
  std::shared_ptr<const Parts> parts{};  ///< no key: the data sets beside the pictures' (parts.h)
  PartOptions options{};                 ///< the keys of the data set `name`, where it is one of those
  std::string options_of{};              ///< no key: the data set that has those
  /// the data set. Required, cifar10, mnist.
  std::string name;
  /// folder with the data set's files. Required.
  std::string root;
  /// pictures of one rank in one batch; null: 32, unless global_batch_size is given. Allowed: from 1 to 2147483647.
  std::optional<std::int64_t> batch_size;
  /// pictures of all ranks in one batch, instead of batch_size: the same training on any number of ranks. Allowed: from
  /// 1 to 2147483647.
  std::optional<std::int64_t> global_batch_size;
  /// pictures of one rank in one batch of evaluation; null: as many as in training. Allowed: from 1 to 2147483647.
  std::optional<std::int64_t> eval_batch_size;
  /// a new order each epoch; false: the order of the files.
  bool shuffle = true;
  /// of order and augmentation; null: system.seed. Allowed: at least 0.
  std::optional<std::int64_t> shuffle_seed;
  /// records that fill no whole batch on every rank: drop them, use each exactly once (ranks with fewer weigh less), or
  /// pad with records from the start of the order. Allowed: drop, exact, pad.
  std::string remainder = "drop";
  /// threads of each rank that prepare batches; 0: the training thread. Allowed: from 0 to 256.
  std::int64_t workers = 1;
  /// batches prepared ahead. Allowed: from 1 to 4096.
  std::int64_t prefetch = 4;
  /// steps from stored picture to model input.
  ConfigNode train_transforms;
  /// the same for evaluation; null: those of training but the random ones.
  ConfigNode eval_transforms;
};

/// The section `optimizer`: how weights are updated (docs/configuration.md#optimizer).
struct OptimizerConfig {
  /// the update rule. Allowed: sgd, momentum, adam, adamw, rmsprop, adagrad, lars, lamb.
  std::string name = "momentum";
  /// learning rate before the schedule. Required, above 0 and at most 1000000.
  double lr = 0;
  /// null: 0 for sgd and rmsprop, 0.9 for momentum and lars. Allowed: at least 0 and below 1.
  std::optional<double> momentum;
  /// sgd, momentum: Nesterov's form.
  bool nesterov = false;
  /// sgd, momentum: share of the gradient left out of the momentum. Allowed: from 0 to 1.
  double dampening = 0;
  /// L2 penalty; decoupled from the gradient for adamw and lamb. Allowed: from 0 to 1000000.
  double weight_decay = 0;
  /// adam, adamw, lamb: decay of the two moments. Allowed: at least 0 and below 1.
  std::vector<double> betas = {0.9, 0.999};
  /// all but sgd and momentum: added to the denominator. Allowed: above 0 and at most 1000000.
  double eps = 1e-8;
  /// rmsprop: decay of the mean square. Allowed: at least 0 and below 1.
  double alpha = 0.99;
  /// rmsprop: divide by the gradient's standard deviation, not by the root of its mean square.
  bool centered = false;
  /// adagrad: step t has the learning rate lr / (1 + (t - 1) * lr_decay). Allowed: from 0 to 1000000.
  double lr_decay = 0;
  /// adagrad: the sum of squares before the first step. Allowed: from 0 to 1000000.
  double initial_accumulator = 0;
  /// lars: factor of the trust ratio. Allowed: above 0 and at most 1000000.
  double trust_coefficient = 0.001;
  /// lamb: larger norms of parameters count as this. Allowed: above 0 and at most 1e+30.
  double max_weight_norm = 10;
  /// lars, lamb: false: parameters of one dimension are updated without the trust ratio.
  bool adapt_1d = true;
  /// parameters without weight decay: biases, and norms (scales and biases of normalization layers). Allowed: norms,
  /// biases.
  std::vector<std::string> no_decay;
  /// list of parameters with their own settings, e.g. [{match: ["fc.*"], lr_factor: 10, weight_decay: 0}].
  ConfigNode groups;
};

/// The section `scheduler`: how the learning rate changes (docs/configuration.md#scheduler).
struct SchedulerConfig {
  /// how the learning rate changes. Allowed: constant, step, multi_step, exponential, cosine, polynomial, one_cycle.
  std::string name = "constant";
  /// epochs of linear rise at the start. Allowed: from 0 to 1000000000.
  double warmup_epochs = 0;
  /// the same in optimizer steps; give one of the two. Allowed: from 0 to 1000000000000000.
  std::int64_t warmup_steps = 0;
  /// share of lr at which the rise starts. Allowed: from 0 to 1.
  double warmup_factor = 0;
  /// what step_size, milestones and exponential's decays count. Allowed: epochs, steps.
  std::string unit = "epochs";
  /// step: distance between two decays. Allowed: from 1 to 1000000000.
  std::int64_t step_size = 30;
  /// multi_step: when to decay, ascending. Allowed: from 1 to 1000000000.
  std::vector<std::int64_t> milestones;
  /// step, multi_step, exponential: factor of one decay. Allowed: from 0 to 1.
  double gamma = 0.1;
  /// cosine and polynomial end here, step, multi_step and exponential stop here. Allowed: at least 0.
  double min_lr = 0;
  /// polynomial: 1 is a straight line. Allowed: above 0 and at most 1000.
  double power = 1;
  /// one_cycle: share of the run in which the learning rate rises. Allowed: at least 0 and below 1.
  double pct_start = 0.3;
  /// one_cycle: shape of rise and fall. Allowed: cosine, linear.
  std::string anneal = "cosine";
  /// one_cycle: begins at lr / div_factor. Allowed: from 1 to 1e+30.
  double div_factor = 25;
  /// one_cycle: ends at lr / div_factor / final_div_factor. Allowed: above 0 and at most 1e+30.
  double final_div_factor = 10000;
};

/// The section `train`: how long, and how one step is made (docs/configuration.md#train).
struct TrainConfig {
  /// passes over the training data. Allowed: from 1 to 1000000000.
  std::optional<std::int64_t> epochs;
  /// stop after this many optimizer steps, also within an epoch. Allowed: from 1 to 1000000000000000.
  std::optional<std::int64_t> steps;
  /// batches of each rank in one optimizer step. Allowed: from 1 to 1000000000.
  std::int64_t accumulate = 1;
  /// largest norm of all gradients together; 0: no limit. Allowed: from 0 to 1e+30.
  double clip_norm = 0;
  /// epochs between evaluations; 0: only at the end. Allowed: from 0 to 1000000000.
  std::int64_t eval_every = 1;
};

/// The section `checkpoint`: what is saved, and where training goes on (docs/configuration.md#checkpoint).
struct CheckpointConfig {
  /// null: checkpoints/ in system.work_dir.
  std::optional<std::string> folder;
  /// epochs between checkpoints; 0: none at epochs' ends. Allowed: from 0 to 1000000000.
  std::int64_t every_epochs = 1;
  /// optimizer steps between checkpoints; 0: none within epochs. Allowed: from 0 to 1000000000000000.
  std::int64_t every_steps = 0;
  /// seconds between checkpoints, by rank 0's clock; 0: none by time. Allowed: from 0 to 1000000000.
  double every_seconds = 0;
  /// write in the background, from a copy of the state in memory.
  bool async = false;
  /// how many of the newest to keep. Allowed: from 1 to 1000000000.
  std::int64_t keep = 3;
  /// auto: the newest intact one if there is one; none: start anew; or a file.
  std::string resume = "auto";
  /// keys that may differ from the run that is resumed though they shape its result, or true for all.
  ConfigNode allow_changes;
  /// write model.safetensors to system.work_dir at the end.
  bool export_weights = true;
};

/// The section `callbacks`: what is shown and recorded (docs/configuration.md#callbacks).
struct CallbacksConfig {
  /// steps between lines with the loss; 0: none; unset: about ten lines an epoch. Allowed: from 0 to 1000000000000000.
  std::optional<std::int64_t> loss_every;
  /// ranks that print to the console. Allowed: first, all.
  std::string console_ranks = "first";
  /// progress bar; auto: on a terminal (under mpirun none: use on, for lines). Allowed: auto, on, off.
  std::string progress = "auto";
  /// steps between lines in metrics.jsonl; 0: none. Allowed: from 0 to 1000000000000000.
  std::int64_t metrics_every = 1;
  /// draw loss.svg from metrics.jsonl.
  bool loss_curve = true;
  /// event files in tensorboard/ for TensorBoard: evaluations, and what metrics.jsonl has.
  bool tensorboard = false;
};

/// The whole configuration, for load_run_config() and run_training() (run.h).
struct RunConfig {
  SystemConfig system;
  ParallelConfig parallel;
  ClusterOptions cluster;  ///< a job whose workers meet through a scheduler (docs/scheduler.md)
  ModelConfig model;
  LossConfig loss;
  TaskConfig task;
  DataConfig data;
  OptimizerConfig optimizer;
  SchedulerConfig scheduler;
  TrainConfig train;
  CheckpointConfig checkpoint;
  CallbacksConfig callbacks;
  ConfigNode program;  ///< keys of the program that brings the model, which reads them itself
};

/// Reads the YAML file `path`, applies the overrides ("train.epochs=3", the value is YAML too) in their order, and
/// checks the result. Absent keys keep their defaults. Error(config) with the file and the line of each mistake: text
/// that is not YAML, unknown keys, wrong types, values out of range, missing required keys, keys that contradict each
/// other.
RunConfig load_run_config(const std::filesystem::path& path, std::span<const std::string> overrides = {});

/// The same with these parts (parts.h) instead of those that Lockstep brings.
RunConfig load_run_config(const std::filesystem::path& path, std::span<const std::string> overrides,
                          std::shared_ptr<const Parts> parts);

/// The configuration of a program that brings model, task and data itself: `defaults`, changed by the file, if there is
/// one, and then by the overrides. It has no keys for what the program brings; model.name, data.name and data.root are
/// free. Errors as above.
RunConfig load_program_config(RunConfig defaults, const std::optional<std::filesystem::path>& path,
                              std::span<const std::string> overrides = {});

/// Checks the rules between keys (each key's own range is checked when a file is read). Error(config) naming the keys,
/// their values and the fix. Reads no file.
void check_run_config(const RunConfig& config);

}  // namespace lockstep::train
