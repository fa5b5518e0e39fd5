// The attribution of operators and optimizer state to modules.
#include <lockstep/plan/trace/attribution.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_map>

namespace lockstep::plan {
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
