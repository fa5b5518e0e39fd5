// The keys of a run's configuration: their description, reading them, and values that follow from several.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/train/config.h>
#include <lockstep/train/weight_names.h>
#include <lockstep/world/cluster_settings.h>
#include <lockstep/world/world.h>

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace lockstep::train {

void describe(ConfigFields& fields, SystemConfig& c);
void describe(ConfigFields& fields, ParallelConfig& c);
void describe(ConfigFields& fields, ModelConfig& c);
void describe(ConfigFields& fields, LossConfig& c);
void describe(ConfigFields& fields, TaskConfig& c);
void describe(ConfigFields& fields, DataConfig& c);
void describe(ConfigFields& fields, OptimizerConfig& c);
void describe(ConfigFields& fields, SchedulerConfig& c);
void describe(ConfigFields& fields, TrainConfig& c);
void describe(ConfigFields& fields, CheckpointConfig& c);
void describe(ConfigFields& fields, CallbacksConfig& c);
void describe(ConfigFields& fields, RunConfig& c);

/// Reads and checks a whole configuration. Error(config) as read_config's, and for keys that contradict each other.
/// `defaults` are changed by it.
RunConfig read_run_config(const ConfigSource& source, RunConfig defaults = {});

/// Whether a model has a task of parts.h, and not the classification of pictures.
bool uses_task(const ModelConfig& config);

/// A configuration whose parts those are, and all values the defaults.
RunConfig config_with(std::shared_ptr<const Parts> parts);

/// parallel.nodes, ctrl_port and devices_per_node: no addresses when neither nodes nor several devices per node are
/// given. Error(config) for an entry that names no address.
NodeList node_list_of(const ParallelConfig& config);

/// model.weights_rename, in its order. Error(config) for what is no map of texts to texts, or a rule that cannot be.
std::vector<Rename> renames_of(const ModelConfig& config);

/// The values of keys whose defaults follow from other keys.
double momentum_of(const OptimizerConfig& config);                        ///< 0 for optimizers without momentum
std::int64_t global_batch_size_of(const DataConfig& config, int shares);  ///< pictures of one batch over so many ranks
std::uint64_t shuffle_seed_of(const RunConfig& config);
std::filesystem::path checkpoint_folder_of(const RunConfig& config);

/// Whether optimizer.momentum has a meaning for that optimizer.name.
bool has_momentum(std::string_view optimizer);

/// Error(config) for an optimizer that cannot update pieces of parameters, because it needs the norms of whole ones.
void require_elementwise(const OptimizerConfig& config);

/// Whether the learning rate of a schedule, by scheduler.name, depends on the number of steps of the whole run.
bool looks_ahead(std::string_view schedule);

/// Whether anything is saved at all.
bool saves_checkpoints(const CheckpointConfig& config);

}  // namespace lockstep::train
