// MindSpore's parallel strategies as the plan of a module: for each input of an operator a tuple with the number of
// parts of each dimension. Pure.
#pragma once

#include <lockstep/global/distribute_module.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// ((2, 1), (4, 1)): the input's tuple, then the weight's.
using Strategy = std::vector<std::vector<std::int64_t>>;

/// Reads "((2, 1), (4, 1))"; brackets may be square. Error(invalid_argument) that shows the mistake.
Strategy parse_strategy(std::string_view text);

/// The strategies of layers, by name ("fc1", "layer1.0.conv1"), as placements of their weights and biases. The weight's
/// tuple is in libtorch's order: (outputs, inputs) of a linear layer, (outputs, inputs, height, width) of a
/// convolution; the input's is (batch, ..., inputs) or (batch, inputs, height, width). A dimension in n parts is
/// sharded along an axis of n ranks, the batch along the axis `data` if that has n ranks; the placements of activations
/// follow from those of the weights.
///
/// Error(config) when a layer has no weight among `names`, when the input dimension is divided differently in the input
/// and in the weight, or when no axis has that many ranks.
ModulePlan plan_of_strategies(std::span<const std::pair<std::string, Strategy>> strategies,
                              std::span<const int> mesh_sizes, std::span<const std::string> mesh_names,
                              std::span<const std::string> names);

}  // namespace lockstep
