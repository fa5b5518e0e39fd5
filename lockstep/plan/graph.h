// The planner's graph of one training step: operators, the values between them, and the modules they belong to. Pure.
#pragma once

#include <lockstep/global/rules/op_call.h>

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace lockstep::plan {

using global::OpCall;
using global::TensorInfo;

/// The kind of a value, which decides its lifetime and who chooses its placements.
enum class ValueKind { parameter, buffer, input, activation, gradient, optimizer_state };

/// A tensor of the step, by its logical shape.
struct Value {
  TensorInfo info;
  ValueKind kind = ValueKind::activation;
  /// Of parameters, buffers and inputs: "fc1.weight", "input"; of optimizer state, and of the gradient that is left in
  /// `.grad()` (a `gradient`; those of activations are activations): its parameter's.
  std::string name;
};

enum class Phase { forward, backward, optimizer };

/// No value: an optional argument that was not given, or a number that every rank has.
inline constexpr std::size_t kNoValue = std::numeric_limits<std::size_t>::max();

/// An operator in the order in which libtorch ran it.
struct Node {
  OpCall call;                       ///< `ranks` and `all_ranks` are set by whoever asks a rule
  std::vector<std::size_t> inputs;   ///< indices into Graph::values, one for each of call.tensors
  std::vector<std::size_t> outputs;  ///< one for each of call.outputs; an in-place operator's is its input
  std::string module;                ///< the innermost module that called it, or whose operator it is the backward of
  Phase phase = Phase::forward;
};

/// What the backward phase wrote to the gradient of a parameter is reduced to lie as the parameter does, many at a time
/// and beside the rest of the backward phase; no node says so. Inputs are what comes with each batch: their first
/// dimension is that of the batch. Parts of one view (t, view, slice, ...) share memory; other outputs have their own.
struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
};

}  // namespace lockstep::plan
