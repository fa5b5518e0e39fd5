// The planner's graph of one training step: operators, the values between them, the modules to which operators and
// optimizer state are attributed, and the user's strategies of operators. Pure.
#pragma once

#include <lockstep/global/operator_strategy.h>
#include <lockstep/global/rules/signature.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::plan {

using global::common_module;
using global::joining_module;
using global::OpCall;
using global::OperatorStrategy;
using global::owner_of;
using global::TensorInfo;

/// The kind of a value, which decides its lifetime and how its placements are chosen.
enum class ValueKind { parameter, buffer, input, activation, gradient, optimizer_state };

/// A tensor of the step, by its logical shape.
struct Value {
  TensorInfo info;
  ValueKind kind = ValueKind::activation;
  /// Of parameters, buffers and inputs: "fc1.weight", "input"; of optimizer state, and of a final gradient in `.grad()`
  /// (kind `gradient`; gradients of activations are activations): the name of the parameter.
  std::string name;
};

enum class Phase { forward, backward, optimizer };

/// No value: an optional argument that was not given, or a number that every rank has.
inline constexpr std::size_t kNoValue = std::numeric_limits<std::size_t>::max();

/// An operator in the order in which libtorch ran it.
struct Node {
  OpCall call;                       ///< `ranks` and `all_ranks` are set when a rule is applied
  std::vector<std::size_t> inputs;   ///< indices into Graph::values, one for each of call.tensors
  std::vector<std::size_t> outputs;  ///< one for each of call.outputs; that of an in-place operator is its input
  std::string module;                ///< the innermost module that called it, or, in backward, that called the forward
                                     ///< operator
  Phase phase = Phase::forward;
  std::shared_ptr<const OperatorStrategy> strategy = nullptr;  ///< the user's, which every plan keeps
};

/// The graph of a step. Gradients of parameters are reduced to the placements of the parameter, in buckets and
/// overlapping with the backward phase; these reductions have no nodes. Inputs are the tensors of a batch: their first
/// dimension is that of the batch. Views (t, view, slice, ...) share memory with their input; other outputs have their
/// own.
struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
};

/// An operator of forward that can have a strategy.
struct NamedOperator {
  std::string name;  ///< "blocks.0.softmax"; of an operator with weights, that of its module
  std::size_t node = 0;
  bool of_weights = false;
};

/// The operators in the order of execution. Views are not among them, because they follow the tensor that they show;
/// neither are operators without a sharding rule.
std::vector<NamedOperator> named_operators(const Graph& graph);

/// An operator with its strategy.
struct GivenStrategy {
  OpCall call;
  std::shared_ptr<const OperatorStrategy> strategy;
};

/// Gives each operator the first strategy that fits it, and returns the operators with a strategy, equal ones once.
std::vector<GivenStrategy> give_strategies(Graph& graph, const global::OperatorStrategies& strategies);

/// Attributes the operators of the optimizer phase. Operators that are connected by the values they use update one
/// parameter: they get its module, and optimizer state among these values gets its name. Operators connected to several
/// parameters (a common norm) are left unchanged. So are nodes before `first`: work on gradients before the update,
/// such as clipping, connects all parameters.
void attribute_optimizer(Graph& graph, std::size_t first = 0);

}  // namespace lockstep::plan
