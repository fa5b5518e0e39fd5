// parallel.strategy and parallel.dataset_strategy: their written form (MindSpore's tuples, and names of layers and
// operators), checked against the model and one traced step before a run begins, and as constraints of the planner.
#pragma once

#include <lockstep/global/global_tensor.h>
#include <lockstep/global/operator_strategy.h>
#include <lockstep/plan/search/search.h>
#include <lockstep/train/config.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/modes/planned_run.h>
#include <lockstep/train/program.h>

#include <span>
#include <string>
#include <vector>

namespace lockstep::train {

/// A layer with a weight, and the tuples of its input and weight.
struct LayerStrategy {
  std::string layer;
  Strategy tuples;
  FilePosition position;
};

struct GivenStrategies {
  std::vector<LayerStrategy> layers;
  global::OperatorStrategies operators;  ///< operators without weights, and the outputs of layers
  std::vector<FilePosition> positions;   ///< of `operators`
};

/// parallel.strategy for a model whose parameters have these names. A key that names a layer with a weight (patterns
/// allowed) is that layer; other keys end in the name of an operator. The value is tuples, in YAML or as text, or {in:
/// TUPLES, out: TUPLES}, as text "TUPLES -> TUPLES". Error(config) with file and line for a value that cannot be read;
/// a key that is neither is treated as a layer that the model does not have.
GivenStrategies read_strategies(const ParallelConfig& config, const std::vector<std::string>& names);

/// Whether a key of parallel.strategy names a layer with a weight.
bool names_layer(std::string_view key, const std::vector<std::string>& names);

/// The layers' strategies as placements of their parameters. Error(config) with file and line.
ModulePlan plan_of_layers(const GivenStrategies& given, std::span<const int> mesh_sizes,
                          std::span<const std::string> mesh_names, const std::vector<std::string>& names);

/// parallel.dataset_strategy on a mesh. Error(config) with file and line.
BatchLayout batch_layout(const ConfigNode& dataset_strategy, const MeshLayout& mesh);

/// The tuple of each input in parallel.dataset_strategy: empty for data_parallel, full_batch and placements. A list has
/// one for each of `inputs`, in their order. Error(config) with file and line.
std::vector<std::pair<std::string, std::vector<std::int64_t>>> input_tuples(const ConfigNode& dataset_strategy,
                                                                            const std::vector<std::string>& inputs);

/// The run in mode semi_auto with strategies that were checked: names of modules without weights (a torch::nn::ReLU)
/// become those of operators, and lists of inputs get their names. Other modes: the run as it is. Error(config) with
/// file and line that names the key and the operator or parameter: unknown names (also in parallel.shard), tuples that
/// do not fit the tensors, divisions without matching axes of the mesh. A step is traced only if operators or outputs
/// have strategies.
ResolvedRun with_checked_strategies(const ResolvedRun& config, const Program& program, int devices);

struct PlannedSearch {
  PlannedStep step;
  plan::SearchOptions options;
};

/// The traced step of a run in mode auto with the user's strategies, and the options of the search for its plan:
/// parallel.mesh, shard, strategy and dataset_strategy. Without parallel.mesh, only meshes that can satisfy the
/// strategies are searched. Errors as with_checked_strategies() and trace_run().
PlannedSearch planned_search(const ResolvedRun& config, const Program& program, int devices);

}  // namespace lockstep::train
