// parallel.strategy and parallel.dataset_strategy in their written form: MindSpore's tuples, and names of layers and
// operators.
#pragma once

#include <lockstep/global/global_tensor.h>
#include <lockstep/global/operator_strategy.h>
#include <lockstep/train/config.h>
#include <lockstep/train/modes/mesh_config.h>

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

}  // namespace lockstep::train
