// The names of a graph's operators, by module and by whether they read weights, and the strategies set for them.
#include <lockstep/plan/cost/cost_model.h>
#include <lockstep/plan/cost/program.h>
#include <lockstep/plan/given_strategies.h>

#include <algorithm>
#include <set>
#include <utility>

namespace lockstep::plan {

std::vector<NamedOperator> named_operators(const Graph& graph) {
  std::vector<bool> of_parameters;
  for (const auto& value : graph.values) {
    of_parameters.push_back(value.kind == ValueKind::parameter || value.kind == ValueKind::buffer);
  }
  std::vector<NamedOperator> operators;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.nodes[i];
    if (node.phase != Phase::forward) continue;
    const auto from_parameter = [&](std::size_t value) { return value != kNoValue && of_parameters[value]; };
    const auto other = [&](std::size_t value) { return value != kNoValue && !of_parameters[value]; };
    const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(), from_parameter);
    const bool only = reads && std::none_of(node.inputs.begin(), node.inputs.end(), other);
    for (const auto output : node.outputs) {
      if (output != kNoValue && only) of_parameters[output] = true;
    }
    const bool divisible = global::find_rule(node.call.name) != nullptr && !is_view(node.call);
    if (!divisible || only || node.call.tensors.empty()) continue;
    const auto op = global::operator_name(node.call.name);
    const bool product = op == "matmul" || op == "convolution";
    operators.push_back({.name = reads && product      ? node.module
                                 : node.module.empty() ? op
                                                       : node.module + "." + op,
                         .node = i,
                         .of_weights = reads});
  }
  return operators;
}

std::vector<GivenStrategy> give_strategies(Graph& graph, const global::OperatorStrategies& strategies) {
  std::vector<GivenStrategy> given;
  std::set<std::pair<std::string, const OperatorStrategy*>> known;
  for (const auto& each : named_operators(graph)) {
    auto& node = graph.nodes[each.node];
    node.strategy = global::find_strategy(strategies, node.module, node.call.name, each.of_weights);
    if (node.strategy && known.emplace(fingerprint(node.call), node.strategy.get()).second) {
      given.push_back({.call = node.call, .strategy = node.strategy});
    }
  }
  return given;
}

}  // namespace lockstep::plan
