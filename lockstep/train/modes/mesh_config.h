// parallel.mesh and parallel.shard: the layout of a run in the global view.
#pragma once

#include <lockstep/global/global_tensor.h>
#include <lockstep/global/operator_strategy.h>
#include <lockstep/train/modes/parallel_run.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/resolved_run.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// Throws Error(config) for the value at this place of the configuration.
[[noreturn]] void refuse_at(const FilePosition& position, const std::string& message);

bool is_global_mode(const ParallelConfig& config);
using global::is_data_axis;

/// parallel.mesh, e.g. {data: 2, model: 4}; one size may be -1 for the remaining ranks. Without the key all ranks are
/// on the axis `data`. Error(config) with file and line when the product is not `world_size`.
MeshLayout mesh_layout(const ParallelConfig& config, int world_size);

/// parallel.shard: patterns of parameter names to placements, each as text ("[Replicate(), Shard(0)]", "R,S0") or as
/// the dimension that an axis divides ({model: 0}). Error(config) with file and line.
ModulePlan module_plan(const ParallelConfig& config, const MeshLayout& mesh);

/// Placements as text ("[Replicate(), Shard(0)]", "R,S0"), as a list of such, or as the dimension that an axis divides
/// ({model: 0}). `key` is that of the configuration, for messages. Error(config) with file and line.
Placements read_placements(const ConfigNode& node, const MeshLayout& mesh, const std::string& key);

/// parallel.shard and the layers of parallel.strategy (strategies.h) for a model whose parameters have these names.
/// Error(config) with file and line for a name or pattern of parallel.shard that fits none of them, and when both place
/// the same parameter in different ways.
ModulePlan whole_plan(const ParallelConfig& config, const MeshLayout& mesh, const std::vector<std::string>& names);

/// Axes of more than one rank along which nothing is divided, so that all their ranks compute the same.
std::vector<std::string> idle_axes(const ParallelConfig& config, const MeshLayout& mesh, const ModulePlan& plan);

/// Error(config) for settings that are incompatible with parallel.mode.
void check_parallel(const ResolvedRun& config);

/// The part of each batch that `rank` loads: its coordinate along the axes that divide the batch.
DataShare global_data_share(const ParallelConfig& config, int rank, int world_size);

/// Placements of a batch on such a mesh, from parallel.dataset_strategy.
struct BatchLayout {
  Placements loaded;                         ///< Shard(0) along the axes that divide the loaded batches
  std::map<std::string, Placements> inputs;  ///< placements of inputs that are redistributed after loading
};

/// Error(config) with file and line for a parallel.dataset_strategy without matching axes of this mesh.
BatchLayout batch_layout(const ParallelConfig& config, const MeshLayout& mesh);

/// The names of the parameters and buffers.
std::vector<std::string> names_in(const torch::nn::Module& module);

}  // namespace lockstep::train
