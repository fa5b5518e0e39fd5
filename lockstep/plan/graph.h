// The planner's graph of one training step: operators, the values between them, and the modules they belong to. Pure.
#pragma once

#include <lockstep/global/operator_strategy.h>
#include <lockstep/global/rules/op_call.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::plan {

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

}  // namespace lockstep::plan
