// The user's strategies of operators in the graph of a step, and whether meshes allow them. Pure.
#pragma once

#include <lockstep/global/operator_strategy.h>
#include <lockstep/plan/graph.h>

#include <memory>
#include <string>
#include <vector>

namespace lockstep::plan {

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

}  // namespace lockstep::plan
