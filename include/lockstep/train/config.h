// The configuration of a training run: the content of one YAML file as plain values.
//
// Each member has the name of its key, and its initial value is the key's default; an optional without a value is null.
// Paths may begin with "~/" only in a file. Values that a program sets are checked when a run begins, by the same rules
// as those of a file (check_run_config()). Plain values: copies are independent, and reading them from several threads
// is safe. docs/configuration.md shows files; docs/launching.md lists the variables that override some keys.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/world/world.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::train {

struct ResolvedRun;

/// The section `system`: where and how each rank runs (docs/configuration.md#system).
struct SystemConfig {
  /// folder for logs, metrics, checkpoints and results; made if missing.
  std::string work_dir = "out";
  /// of the initial weights, dropout, shuffling and augmentation. Allowed: at least 0.
  std::int64_t seed = 1;
  /// threads of each rank that compute one operation together. Allowed: from 1 to 1024.
  std::int64_t threads = 1;
  /// auto: cuda with parallel.backend nccl or staged, and for a single rank where there is one; cuda: the device of the
  /// local rank; cuda:N: that one, for one rank of a host, or several with parallel.backend staged (docs/gpus.md).
  /// Allowed: auto, cpu, cuda, cuda:N.
  std::string device = "auto";
  /// on CUDA, float32 products with 10 bits of precision, several times as fast: nowhere, in convolutions (as
  /// libtorch), or everywhere. Allowed: off, convolutions, on.
  std::string tf32 = "convolutions";
  /// least important lines that are logged. Allowed: debug, info, warning, error, off.
  std::string log_level = "info";
  /// prefer deterministic kernels where there is a choice.
  bool deterministic = true;
};

/// The section `parallel.wrapper`: how the model is wrapped, in MMEngine's words; sets parallel.mode and buffers
/// (docs/configuration.md#wrapper).
struct WrapperConfig {
  PartOptions options{};  ///< the keys of the wrapper `type`; choose() of parts.h sets them
  /// data_parallel, separate: parallel.mode data_parallel; fully_sharded: semi_auto with parameters, gradients and
  /// optimizer divided over all ranks (ZeRO stage 3); empty: as parallel.mode says. Allowed: '', data_parallel,
  /// separate, fully_sharded, MMDistributedDataParallel, MMSeparateDistributedDataParallel, MMFullyShardedDataParallel.
  std::string type;
  /// accepted: parameters that a step does not use are always found, at no cost.
  bool find_unused_parameters = false;
  /// parallel.buffers broadcast or local; null: as that says.
  std::optional<bool> broadcast_buffers;
  /// fully_sharded, and wrappers of yours that place parameters: parameters that may be on their way while an operator
  /// computes, before they are needed; 0: none. Allowed: from 0 to 64.
  std::int64_t prefetch = 2;
};

/// The section `parallel.server`: mode parameter_server (docs/recommendation.md#parameter-servers).
struct ServerConfig {
  /// parameters that servers have beside the embedding tables: names or patterns such as fc*.weight; "*": all of them.
  std::vector<std::string> parameters{};
  /// sync: a step has the gradients of all workers, with the result of data_parallel; bounded: a worker may be
  /// `staleness` steps ahead of the slowest; async: any number of steps. Allowed: sync, bounded, async.
  std::string consistency = "sync";
  /// bounded: steps that a worker may be ahead; 0: as sync. Allowed: from 0 to 1000000.
  std::int64_t staleness = 0;
  /// which server has a row: hash: by a hash of table and id; range: equal ranges of ids. Allowed: hash, range.
  std::string partition = "hash";
  /// KiB of the pieces into which `parameters` are cut, which are divided among servers. Allowed: from 1 to 1048576.
  std::int64_t slice_kb = 256;
  /// 2: each server has a copy of the rows of the server before it, from which a lost server's rows come. Allowed: from
  /// 1 to 2.
  std::int64_t replicas = 1;
  /// rows that each worker keeps while they do not change, that is, in evaluations; 0: none. Allowed: from 0 to
  /// 1000000000000.
  std::int64_t cache_rows = 0;
};

/// The section `parallel`: how the ranks work together (docs/configuration.md#parallel).
struct ParallelConfig {
  /// semi_auto: one logical model over parallel.mesh; auto: the same, laid out by the planner (docs/plan.md);
  /// parameter_server: data_parallel whose embedding tables are on servers (docs/recommendation.md); stand_alone: one
  /// process, no communication. Allowed: data_parallel, semi_auto, auto, parameter_server, stand_alone.
  std::string mode = "data_parallel";
  /// auto: self alone, shm when all ranks share a host, hierarchy when some do, else tcp; for CUDA tensors nccl
  /// (docs/gpus.md). Allowed: auto, self, shm, tcp, mpi, hierarchy, nccl, staged, gloo, tls.
  std::string backend = "auto";
  /// average the ranks' gradients; false: their sum.
  bool gradients_mean = true;
  /// MiB of gradients that travel together. Allowed: above 0 and at most 1000000.
  double bucket_mb = 25;
  /// MiB of the first bucket, so that sending starts early. Allowed: above 0 and at most 1000000.
  double first_bucket_mb = 1;
  /// data_parallel: how gradients of sparse embeddings travel, with the same numbers. rows: ids and rows of the step;
  /// dense: whole tables; auto: rows where the optimizer takes them. Allowed: auto, rows, dense.
  std::string sparse_gradients = "auto";
  /// each rank updates its share of the parameters and takes the others' (ZeRO stage 1).
  bool shard_optimizer = false;
  WrapperConfig wrapper;
  ServerConfig server;
  /// BatchNorm statistics: rank 0's after each step, or each rank its own until evaluation and checkpoints. Allowed:
  /// broadcast, local.
  std::string buffers = "broadcast";
  /// data_parallel: BatchNorm sees all ranks' pictures, as on one rank with all; the others always do so.
  bool sync_batch_norm = false;
  /// names or patterns of blocks whose activations are computed again in the backward pass instead of kept, e.g.
  /// ["blocks.*"] of gpt: less memory, about a third more work.
  std::vector<std::string> recompute;
  /// compare the ranks' arguments before each collective: finds a rank that is out of step, costs overlap.
  bool check_collectives = false;
  /// semi_auto: axes and their ranks, e.g. {data: 2, model: 4}; null: {data: all}, in mode auto what is fastest.
  ConfigNode mesh;
  /// semi_auto, auto: parameters by name, e.g. {fc.weight: {model: 0}, "layer4.*": "[Shard(0), Replicate()]"}.
  ConfigNode shard;
  /// semi_auto, auto: layers and operators by name with the parts of their tensors, e.g. {fc: [[2, 1], [4, 1]],
  /// layer1.*.relu: [[2, 4, 1, 1]]}.
  ConfigNode strategy;
  /// semi_auto, auto: data_parallel: the batch is divided along `data`; full_batch: each rank loads all of it; or the
  /// parts of each input, e.g. {pictures: [2, 1, 1, 1], labels: [2]}; null: data_parallel, in auto what is fastest.
  ConfigNode dataset_strategy;
  /// auto: YAML that describes devices and links, as 'lockstep calibrate' writes it; null: a guess.
  std::optional<std::string> cluster;
  /// auto: MiB that a rank may take; null: the cluster's device memory. Allowed: above 0 and at most 1000000000.
  std::optional<double> memory_limit_mb;
  /// auto: file of the plan: used where it is there, written where it is not.
  std::optional<std::string> plan;
  /// JSON file for the mesh, placements and strategies that the run uses, in the format of 'lockstep plan --save'.
  std::optional<std::string> strategy_ckpt_save_file;
  /// such a file, which decides on mode, mesh, shard, strategy and dataset_strategy; in all modes.
  std::optional<std::string> strategy_ckpt_load_file;
  /// auto: steps to try plan and data parallel for; the plan stays if it takes 3 % less; 0: trust the plan. Allowed:
  /// from 0 to 1000.
  std::int64_t verify_plan = 0;
  /// encrypt what travels between hosts, with the certificates of cluster.config_file_path.
  bool encrypt = false;
  /// seconds one collective may take. Allowed: from 0.001 to 1000000.
  double timeout_s = kDefaultTimeoutS;
  /// seconds to wait for all ranks. Allowed: from 0.001 to 1000000.
  double start_timeout_s = kDefaultStartTimeoutS;
  /// list of {addr: ADDRESS}, node 0 first: start the same command on each of them and nothing else.
  ConfigNode nodes;
  /// port of node 0 where several nodes meet. Allowed: from 1 to 65535.
  std::optional<std::int64_t> ctrl_port;
  /// ranks that one command starts on a node; null: 1, or what a cloud's variables say. Allowed: from 1 to 4096.
  std::optional<std::int64_t> devices_per_node;
};

/// The section `model`: what is trained (docs/configuration.md#model).
struct ModelConfig {
  PartOptions options{};  ///< the keys that only the model `name` has
  /// the network. Required.
  std::string name;
  /// outputs of the last layer. Allowed: from 1 to 1000000000.
  std::int64_t num_classes = 10;
  /// mlp, vgg11: widths of the hidden linear layers. Allowed: from 1 to 1000000000.
  std::vector<std::int64_t> hidden = {1024, 1024};
  /// safetensors file, .pth of torch.save, .ckpt of MindSpore, index or folder of several files, or checkpoint to start
  /// from; null: random weights.
  std::optional<std::string> weights;
  /// the keys of a .pth that lead to its state dict, e.g. net or ema.model; empty: found where that is clear.
  std::string weights_key;
  /// what the names in that file begin with and the model's do not, e.g. module.
  std::string weights_prefix;
  /// beginnings or patterns of the file's other names and what they become, e.g. {body.: "", "*.gamma": "*.weight"}.
  ConfigNode weights_rename;
  /// names or patterns of what keeps its random weights and may be missing in that file, e.g. [fc.*].
  std::vector<std::string> weights_except;
  /// false: take what fits, and log the rest, which keeps its random weights.
  bool weights_strict = true;
  /// of a checkpoint take the average that the callback ema kept, in place of the trained parameters.
  bool weights_average = false;
  /// NHWC memory, faster for convolutions on many CPUs.
  bool channels_last = false;
  /// dtype of convolutions and matrix products; O2, O3: float16 on CUDA, bfloat16 on a CPU; O0: none. Allowed: none,
  /// bfloat16, float16, O0, O2, O3.
  std::string autocast = "none";
  /// names or patterns of parameters that are not trained, e.g. ["conv1.*", "layer1.*"]; batch norm statistics go on.
  std::vector<std::string> freeze;
};

/// The section `loss`: what is minimized (docs/configuration.md#loss).
struct LossConfig {
  PartOptions options{};  ///< the keys that only the loss `name` has
  /// cross_entropy_expand: the same value, built of primitive operations.
  std::string name = "cross_entropy";
  /// share of the target spread over all classes. Allowed: at least 0 and below 1.
  double label_smoothing = 0;
};

/// The section `task` of models that are not classifiers of pictures: what is computed from a batch, and measured.
struct TaskConfig {
  PartOptions options{};  ///< the keys of the task `name`
  /// empty: the model's own.
  std::string name;
};

/// The section `data`: what it is trained on (docs/configuration.md#data).
struct DataConfig {
  PartOptions options{};  ///< the keys that only the data set `name` has
  /// the data set. Required.
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
  PartOptions options{};  ///< the keys of the optimizer `name`; choose() of parts.h sets them
  /// the update rule.
  std::string name = "momentum";
  /// learning rate before the schedule. Required, above 0 and at most 1000000.
  double lr = 0;
  /// L2 penalty; decoupled from the gradient for some, such as adamw. Allowed: from 0 to 1000000.
  double weight_decay = 0;
  /// samples of one step that lr is for: it is multiplied by their real number over this; null: it is not. Allowed:
  /// from 1 to 1000000000.
  std::optional<std::int64_t> base_batch_size;
  /// parameters without weight decay: biases, and norms (scales and biases of normalization layers). Allowed: norms,
  /// biases.
  std::vector<std::string> no_decay;
  /// list of parameters with their own settings, e.g. [{match: ["fc.*"], lr_factor: 10, weight_decay: 0}].
  ConfigNode groups;
};

/// The section `scheduler`: how the learning rate changes (docs/configuration.md#scheduler).
struct SchedulerConfig {
  PartOptions options{};  ///< the keys of the schedule `name`; choose() of parts.h sets them
  /// how the learning rate changes.
  std::string name = "constant";
  /// epochs of linear rise at the start. Allowed: from 0 to 1000000000.
  double warmup_epochs = 0;
  /// the same in optimizer steps; give one of the two. Allowed: from 0 to 1000000000000000.
  std::int64_t warmup_steps = 0;
  /// share of lr at which the rise starts. Allowed: from 0 to 1.
  double warmup_factor = 0;
  /// cosine and polynomial end here, step, multi_step and exponential stop here. Allowed: at least 0.
  double min_lr = 0;
};

/// The section `loss_scaler`: a factor of the loss that keeps small gradients from becoming 0 in 16 bits
/// (docs/configuration.md#loss_scaler).
struct LossScalerConfig {
  /// static: always the same factor; dynamic: smaller after an overflow, larger after scale_window steps without one.
  /// Allowed: none, static, dynamic.
  std::string type = "none";
  /// the factor, dynamic: that of the first step. Allowed: above 0 and at most 1e+30.
  double loss_scale = 65536;
  /// dynamic: what the factor is divided or multiplied by. Allowed: above 1 and at most 1000000.
  double scale_factor = 2;
  /// dynamic: steps without an overflow after which the factor grows. Allowed: from 1 to 1000000000000000.
  std::int64_t scale_window = 2000;
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
  /// callbacks see a step once a sink, as in MindSpore.
  bool dataset_sink_mode = false;
  /// dataset_sink_mode: steps of a sink, of which train.epochs are made; -1: those of an epoch. Allowed: from -1 to
  /// 1000000000.
  std::int64_t sink_size = -1;
  /// on a CUDA device: record a step once, and launch it as one CUDA graph from then on; where that cannot be, steps
  /// run as written and the run reports why (docs/gpus.md#a-step-without-launch-costs).
  bool cuda_graph = false;
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
  /// auto: the newest intact one if there is one; none: start from the beginning; or the path of one.
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
  /// list of further callbacks with their keys, e.g. [ema, early_stopping: {metric: accuracy, patience: 3}]
  /// (docs/callbacks.md).
  ConfigNode use;
};

/// The whole configuration, for load_run_config() and Trainer (runner/trainer.h).
struct RunConfig {
  /// shared libraries that add parts (docs/own_model.md#plugins).
  std::vector<std::string> plugins;
  SystemConfig system;
  ParallelConfig parallel;
  ClusterOptions cluster;  ///< a job whose workers meet through a scheduler (docs/scheduler.md)
  ModelConfig model;
  LossConfig loss;
  TaskConfig task;
  /// what evaluations measure beside the task's own, e.g. [accuracy, top_k: {k: 5}, f1].
  ConfigNode metrics;
  DataConfig data;
  OptimizerConfig optimizer;
  SchedulerConfig scheduler;
  LossScalerConfig loss_scaler;
  TrainConfig train;
  CheckpointConfig checkpoint;
  CallbacksConfig callbacks;
  ConfigNode program;  ///< keys of the program that brings the model, which reads them itself

  RunConfig() = default;
  // A copy of the values alone would lose the parts that they name.
  RunConfig(const ResolvedRun&) = delete;  // keep a ResolvedRun, for example by `auto`
  RunConfig& operator=(const ResolvedRun&) = delete;
};

}  // namespace lockstep::train
