// The names of a graph's operators, by module and by whether they read weights, and the strategies set for them; and
// the attribution of operators and optimizer state to modules.
#include <lockstep/plan/cost/cost_model.h>
#include <lockstep/plan/cost/program.h>
#include <lockstep/plan/graph.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <unordered_map>
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

namespace {

/// Sets of connected values (union-find), each with a representative.
class Together {
 public:
  explicit Together(std::size_t values) : leader_(values) { std::iota(leader_.begin(), leader_.end(), std::size_t{0}); }

  std::size_t find(std::size_t value) {
    while (leader_[value] != value) value = leader_[value] = leader_[leader_[value]];
    return value;
  }
  void join(std::size_t a, std::size_t b) { leader_[find(a)] = find(b); }

 private:
  std::vector<std::size_t> leader_;
};

std::vector<std::size_t> values_of(const Node& node) {
  auto values = node.inputs;
  values.insert(values.end(), node.outputs.begin(), node.outputs.end());
  std::erase(values, kNoValue);
  return values;
}

}  // namespace

void attribute_optimizer(Graph& graph, std::size_t first) {
  const auto nodes = std::span(graph.nodes).subspan(first);
  Together together(graph.values.size());
  for (const auto& node : nodes) {
    if (node.phase != Phase::optimizer) continue;
    const auto values = values_of(node);
    for (const std::size_t value : values) together.join(value, values.front());
  }
  std::unordered_map<std::size_t, std::vector<std::size_t>> parameters;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].kind == ValueKind::parameter) parameters[together.find(i)].push_back(i);
  }
  const auto parameter_of = [&](std::size_t value) -> std::string {
    const auto found = parameters.find(together.find(value));
    return found != parameters.end() && found->second.size() == 1 ? graph.values[found->second.front()].name : "";
  };
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].kind == ValueKind::optimizer_state) graph.values[i].name = parameter_of(i);
  }
  for (auto& node : nodes) {
    const auto values = values_of(node);
    if (node.phase == Phase::optimizer && !values.empty()) node.module = owner_of(parameter_of(values.front()));
  }
}

}  // namespace lockstep::plan
