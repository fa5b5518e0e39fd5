// The configuration of a training run: the content of one YAML file as plain values.
//
// Every key is described once (`describe` in config.cpp): name, type, range and meaning. Reading, `--dry-run`, the list
// of keys and the errors about them all come from that description.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/world/start.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

struct SystemConfig {
  std::string work_dir = "out";
  std::int64_t seed = 1;
  std::int64_t threads = 1;
  std::string device = "auto";
  std::string log_level = "info";
  bool deterministic = true;
};

struct ParallelConfig {
  std::string mode = "data_parallel";
  std::string backend = "auto";
  bool gradients_mean = true;
  double bucket_mb = 25;
  double first_bucket_mb = 1;
  bool shard_optimizer = false;
  std::string buffers = "broadcast";
  bool sync_batch_norm = false;
  bool check_collectives = false;
  ConfigNode mesh;  ///< see mesh_config.h
  ConfigNode shard;
  ConfigNode strategy;
  std::optional<std::string> cluster;  ///< see auto_mode.h
  std::optional<double> memory_limit_mb;
  std::optional<std::string> plan;
  std::int64_t verify_plan = 0;
  double timeout_s = 600;
  double start_timeout_s = 300;
  ConfigNode nodes;
  std::optional<std::int64_t> ctrl_port;
  std::optional<std::int64_t> devices_per_node;
};

struct ModelConfig {
  std::string name;
  std::int64_t num_classes = 10;
  std::vector<std::int64_t> hidden = {1024, 1024};
  std::optional<std::string> weights;
  std::string weights_prefix;
  std::vector<std::string> weights_except;
  bool channels_last = false;
  std::string autocast = "none";
};

struct LossConfig {
  std::string name = "cross_entropy";
  double label_smoothing = 0;
};

struct DataConfig {
  std::string name;
  std::string root;
  std::optional<std::int64_t> batch_size;
  std::optional<std::int64_t> global_batch_size;
  std::optional<std::int64_t> eval_batch_size;
  bool shuffle = true;
  std::optional<std::int64_t> shuffle_seed;
  std::string remainder = "drop";
  std::int64_t workers = 1;
  std::int64_t prefetch = 4;
  ConfigNode train_transforms;
  ConfigNode eval_transforms;
};

struct OptimizerConfig {
  std::string name = "momentum";
  double lr = 0;
  std::optional<double> momentum;
  bool nesterov = false;
  double dampening = 0;
  double weight_decay = 0;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
};

struct SchedulerConfig {
  std::string name = "constant";
  double warmup_epochs = 0;
  std::int64_t warmup_steps = 0;
  double warmup_factor = 0;
  std::string unit = "epochs";
  std::int64_t step_size = 30;
  std::vector<std::int64_t> milestones;
  double gamma = 0.1;
  double min_lr = 0;
};

struct TrainConfig {
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  std::int64_t accumulate = 1;
  double clip_norm = 0;
  std::int64_t eval_every = 1;
};

struct CheckpointConfig {
  std::optional<std::string> folder;
  std::int64_t every_epochs = 1;
  std::int64_t every_steps = 0;
  std::int64_t keep = 3;
  std::string resume = "auto";
  ConfigNode allow_changes;  ///< see changes.h
  bool export_weights = true;
};

struct CallbacksConfig {
  std::optional<std::int64_t> loss_every;
  std::string console_ranks = "first";
  std::string progress = "auto";
  std::int64_t metrics_every = 1;
  bool loss_curve = true;
};

struct RunConfig {
  SystemConfig system;
  ParallelConfig parallel;
  ClusterOptions cluster;
  ModelConfig model;
  LossConfig loss;
  DataConfig data;
  OptimizerConfig optimizer;
  SchedulerConfig scheduler;
  TrainConfig train;
  CheckpointConfig checkpoint;
  CallbacksConfig callbacks;
};

void describe(ConfigFields& fields, SystemConfig& c);
void describe(ConfigFields& fields, ParallelConfig& c);
void describe(ConfigFields& fields, ModelConfig& c);
void describe(ConfigFields& fields, LossConfig& c);
void describe(ConfigFields& fields, DataConfig& c);
void describe(ConfigFields& fields, OptimizerConfig& c);
void describe(ConfigFields& fields, SchedulerConfig& c);
void describe(ConfigFields& fields, TrainConfig& c);
void describe(ConfigFields& fields, CheckpointConfig& c);
void describe(ConfigFields& fields, CallbacksConfig& c);
void describe(ConfigFields& fields, RunConfig& c);

/// Reads and checks a whole configuration. Error(config) as read_config's, and for keys that contradict each other.
RunConfig read_run_config(const ConfigSource& source);

/// The rules between keys (each key's own range is checked on reading): Error(config) naming the keys, their values and
/// the mend. Reads no file.
void check_run_config(const RunConfig& config);

/// parallel.nodes, ctrl_port and devices_per_node: no addresses when neither nodes nor several devices per node are
/// given. Error(config) for an entry that names no address.
NodeList node_list_of(const ParallelConfig& config);

/// The values of keys whose defaults follow from other keys.
double momentum_of(const OptimizerConfig& config);
std::int64_t global_batch_size_of(const DataConfig& config, int shares);  ///< pictures of one batch over so many ranks
std::uint64_t shuffle_seed_of(const RunConfig& config);
std::filesystem::path checkpoint_folder_of(const RunConfig& config);

}  // namespace lockstep::train
