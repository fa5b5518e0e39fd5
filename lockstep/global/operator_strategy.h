// MindSpore's parallel strategies: for each input of an operator a tuple with the number of parts of each dimension.
// Those of layers, as the plan of a module; those of operators without weights, as placements on a mesh; and the module
// that an operator belongs to, found from the modules of its inputs. Pure.
#pragma once

#include <lockstep/global/global_tensor.h>
#include <lockstep/global/rules/signature.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
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

namespace lockstep::global {

/// The module of a parameter: "blocks.0.fc1" of "blocks.0.fc1.weight"; "", the model itself, without a dot.
inline std::string_view owner_of(std::string_view parameter) {
  const auto dot = parameter.rfind('.');
  return parameter.substr(0, dot == std::string_view::npos ? 0 : dot);
}

/// Whether `name` is `module` or one of the modules in it; the empty name is that of the model itself.
bool is_inside(std::string_view name, std::string_view module);

/// The innermost module that contains both (or is one of them).
std::string_view common_module(std::string_view a, std::string_view b);

/// The module of an operator without parameters. `inputs` are the modules that produced its inputs, the most recent one
/// last. If they differ, the operator belongs to the innermost module that contains all of them. Exception: an operator
/// that combines the result of a block with the block's input (a residual) belongs to that block, because lists and
/// sequences of modules (`containers`), and the model itself, do not call such operators.
std::string joining_module(std::span<const std::string> inputs, const std::set<std::string, std::less<>>& containers);

/// For each operator called `op` in `module` and in the modules inside it.
struct OperatorStrategy {
  std::string module;     ///< a name or a pattern (`fits()`); empty: the whole model
  std::string op;         ///< operator_name(); kOfWeights: the product or convolution with the weight of `module`,
                          ///< which has no other name
  Strategy inputs = {};   ///< a tuple for each tensor that the operator reads; empty: free
  Strategy outputs = {};  ///< a tuple for each result; empty: free
  friend bool operator==(const OperatorStrategy&, const OperatorStrategy&) = default;
};
using OperatorStrategies = std::vector<std::shared_ptr<const OperatorStrategy>>;

inline constexpr std::string_view kOfWeights = "weight";

/// The name of an operator in strategies: "softmax" for libtorch's "_softmax", "max_pool2d" for
/// "max_pool2d_with_indices", "matmul" for all products of matrices.
std::string operator_name(std::string_view op);

/// Whether an operator has such a name.
bool is_operator_name(std::string_view name);

/// "blocks.0.softmax"; of kOfWeights, the module's name.
std::string name_of(const OperatorStrategy& strategy);

/// "((2, 1), (4, 1))".
std::string to_string(const Strategy& strategy);

/// "((2, 1), (4, 1))", or "((2, 1)) -> ((2, 1))" with outputs, as read_operator_strategy() reads it.
std::string strategy_text(const OperatorStrategy& strategy);

/// The first strategy for the operator `op` (libtorch's name) that belongs to `module`; nullptr: none. `of_weights`:
/// the operator reads a parameter.
std::shared_ptr<const OperatorStrategy> find_strategy(const OperatorStrategies& strategies, std::string_view module,
                                                      std::string_view op, bool of_weights);

/// Placements that divide the dimensions of a tensor into these numbers of parts. Among several, those that differ from
/// `like` on the fewest axes. nullopt if the mesh has no axes for them.
std::optional<Placements> placements_with_parts(std::span<const std::int64_t> parts, std::span<const int> mesh_sizes,
                                                const Placements& like);

/// Whether an axis of this name divides the batch: data, data2, data3 (as plans name further ones).
bool is_data_axis(std::string_view name);

/// The batch's axes: Shard(0) along those; without names, along the first axis.
Placements along_data(std::span<const int> mesh_sizes, std::span<const std::string> mesh_names);

/// One signature for each axis, which together divide the inputs of the call according to the strategy; nullopt: the
/// rule has no such signatures, or the strategy does not constrain the inputs. The outputs of the call must be set.
std::optional<std::vector<Signature>> signatures_of(const OperatorStrategy& strategy, const OpCall& call,
                                                    const Rule* rule, std::span<const int> mesh_sizes,
                                                    std::span<const std::string> mesh_names);

/// Placements of the outputs according to the strategy, for an operator whose outputs have `now`; an output that the
/// strategy leaves free stays as it is.
std::vector<Placements> outputs_of(const OperatorStrategy& strategy, const OpCall& call, std::vector<Placements> now,
                                   std::span<const int> mesh_sizes);

/// Why a tuple cannot divide a tensor of these sizes among `devices`, as the rest of a sentence; empty: it can.
std::string mistake_in(std::span<const std::int64_t> parts, std::span<const std::int64_t> sizes, int devices);

/// Why the strategy is impossible for this call on any mesh with this number of devices; empty: it is possible.
std::string mistake_in(const OperatorStrategy& strategy, const OpCall& call, int devices);

/// The same on one mesh, for a strategy that is possible on some mesh.
std::string mistake_on_mesh(const OperatorStrategy& strategy, const OpCall& call, const Rule* rule,
                            std::span<const int> mesh_sizes, std::span<const std::string> mesh_names);

}  // namespace lockstep::global
