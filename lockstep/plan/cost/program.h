// A graph compiled for repeated evaluation: equal calls are one operator, the lifetime of each value is known, and
// repeated layers can be folded. Pure.
#pragma once

#include <lockstep/global/rules/signature.h>
#include <lockstep/plan/graph.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::plan {

struct Program {
  struct Operator {
    OpCall call;
    const global::Rule* rule = nullptr;
    bool view = false;
    bool makes_unwritten = false;  ///< empty_like and similar: the first write decides the placements of the result
    std::shared_ptr<const OperatorStrategy> strategy = nullptr;  ///< given by the user
  };
  struct Step {
    std::uint32_t op = 0;
    std::vector<std::size_t> inputs;   ///< values; kNoValue for arguments that were not given
    std::vector<std::size_t> outputs;  ///< values
    std::size_t module = 0;
    Phase phase = Phase::forward;
    double times = 1;  ///< number of equal steps that it represents
    std::vector<std::size_t>
        finishes_gradients{};          ///< values: the gradients of parameters that this step writes for the last time
    std::vector<std::size_t> frees{};  ///< values whose memory is no longer needed
  };
  struct Item {
    TensorInfo info;
    ValueKind kind = ValueKind::activation;
    std::string name;
    std::optional<std::size_t> parameter{};  ///< of a gradient or optimizer state: the value it belongs to
    std::optional<std::size_t> view_of{};    ///< the value whose memory it shares
    std::size_t module = 0;                  ///< of a parameter: its module
    double times = 1;                        ///< number of equal parameters that it represents
    double kept_times = 1;                   ///< number of equal tensors in memory at the same time
  };

  std::vector<Operator> operators;
  std::vector<Step> steps;
  std::vector<Item> values;
  std::vector<std::string> modules;
  std::vector<std::size_t> parameters;  ///< values, in the order of the graph
  std::vector<std::size_t> buffers;
  std::vector<std::size_t> inputs;
};

/// `times[i]`: the number of steps that node i represents; empty: 1 for each.
Program compile(const Graph& graph, const std::vector<double>& times = {});

/// The identity of an operator call: name, arguments, shapes.
std::string fingerprint(const OpCall& call);

struct Folded {
  Program program;
  /// For each parameter of the whole program, in its order: the value of the folded program that decides for it.
  std::vector<std::size_t> decided_by;
  std::size_t layers_left_out = 0;
};

/// `whole` is compile(graph).
Folded fold_repeats(const Graph& graph, const Program& whole);

}  // namespace lockstep::plan
