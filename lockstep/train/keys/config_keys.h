// The keys of a run's configuration: their descriptions, and values that follow from several keys.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/world/cluster_settings.h>
#include <lockstep/world/world.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

void describe(ConfigFields& fields, SystemConfig& c);
void describe(ConfigFields& fields, LossScalerConfig& c);
void describe(ConfigFields& fields, TrainConfig& c);
void describe(ConfigFields& fields, CheckpointConfig& c);
void describe(ConfigFields& fields, CallbacksConfig& c);
void describe(ConfigFields& fields, ResolvedRun& c);

/// The values of parallel.mode.
std::vector<std::string> parallel_modes();

/// Whether the model has a task of parts.h, instead of the classification of pictures.
bool uses_task(const ResolvedRun& config);

/// Whether the run has a task of parts.h (that of its model or another) instead of the classification of pictures.
bool has_task(const ResolvedRun& config);

/// parallel.nodes, ctrl_port and devices_per_node: no addresses when neither nodes nor several devices per node are
/// given. Error(config) for an entry that is not an address.
NodeList node_list_of(const ParallelConfig& config);

/// model.weights_rename, in its order. Error(config) for a value that is not a map of texts to texts, or for an invalid
/// rule.
std::vector<Rename> renames_of(const ModelConfig& config);

/// data.batch_size without it and data.global_batch_size.
inline constexpr std::int64_t kDefaultBatchSize = 32;

/// The values of keys whose defaults follow from other keys.
std::int64_t global_batch_size_of(const DataConfig& config, int shares);  ///< pictures of one batch over `shares` ranks
std::uint64_t shuffle_seed_of(const ResolvedRun& config);
std::filesystem::path checkpoint_folder_of(const ResolvedRun& config);

/// For messages, the key whose change makes a run start from the beginning: "another system.work_dir", or "another
/// checkpoint.folder" if that is given.
std::string_view another_folder(const ResolvedRun& config);

/// Error(config) for an optimizer that cannot update pieces of parameters, because it needs the norms of whole ones.
void require_elementwise(const ResolvedRun& config);

/// Whether the optimizer accepts sparse gradients of rows. An optimizer that a program makes itself is assumed not to.
bool takes_rows(const ResolvedRun& config);

/// Whether the learning rate of a schedule, by scheduler.name, depends on the number of steps of the whole run; true
/// for schedules that are not part of Lockstep.
bool looks_ahead(std::string_view schedule);

/// All keys that a configuration with those parts can have, such as "optimizer.betas", for every choice of parts.
std::vector<std::string> all_keys(const ResolvedRun& config);

/// Whether the run saves checkpoints.
bool saves_checkpoints(const CheckpointConfig& config);

}  // namespace lockstep::train
