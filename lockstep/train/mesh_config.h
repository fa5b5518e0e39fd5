// parallel.mesh and parallel.shard: the layout of a run in the global view.
#pragma once

#include <lockstep/global/module_plan.h>
#include <lockstep/train/config.h>
#include <lockstep/train/parallel_run.h>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// Ranks along named axes; the batch is divided along `data` (and data2, data3, as plans name further ones).
struct MeshLayout {
  std::vector<int> sizes;
  std::vector<std::string> names;
};

bool is_global_mode(const ParallelConfig& config);
bool is_data_axis(std::string_view name);

/// parallel.mesh, e.g. {data: 2, model: 4}; one size may be -1 for "the rest". Without it all ranks are on the axis
/// `data`. Error(config) with file and line when the product is not `world_size`.
MeshLayout mesh_layout(const ParallelConfig& config, int world_size);

/// parallel.shard: patterns of parameter names to placements, each as text ("[Replicate(), Shard(0)]", "R,S0") or as
/// the dimension that an axis divides ({model: 0}). Error(config) with file and line.
ModulePlan module_plan(const ParallelConfig& config, const MeshLayout& mesh);

/// parallel.shard and parallel.strategy (layers by name, with MindSpore's tuples: see strategy.h) for a model whose
/// parameters have these names. Error(config) when both place the same parameter, and differently.
ModulePlan whole_plan(const ParallelConfig& config, const MeshLayout& mesh, const std::vector<std::string>& names);

/// Axes of more than one rank along which nothing is divided, so that their ranks all do the same.
std::vector<std::string> idle_axes(const MeshLayout& mesh, const ModulePlan& plan);

/// Error(config) for settings that do not go with parallel.mode.
void check_parallel(const RunConfig& config);

/// The part of each batch that `rank` loads: its coordinate along the axes of data.
DataShare global_data_share(const ParallelConfig& config, int rank, int world_size);

/// Placements of a batch on such a mesh.
Placements batch_placements(const MeshLayout& mesh);

}  // namespace lockstep::train
