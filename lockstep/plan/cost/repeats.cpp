// The folding of repeated layers.
#include <lockstep/plan/cost/program.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

namespace lockstep::plan {
namespace {

/// "blocks.3.fc1": layer 3 of "blocks", in it "fc1".
struct InLayer {
  std::string list;
  int layer = 0;
  std::string rest;
};

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 7 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

std::optional<InLayer> in_layer(const std::string& module) {
  std::size_t begin = 0;
  while (begin < module.size()) {
    const auto end = std::min(module.find('.', begin), module.size());
    const auto part = module.substr(begin, end - begin);
    if (begin > 0 && is_number(part)) {
      return InLayer{.list = module.substr(0, begin - 1),
                     .layer = std::stoi(part),
                     .rest = end < module.size() ? module.substr(end + 1) : std::string()};
    }
    begin = end + 1;
  }
  return std::nullopt;
}

/// One layer: its nodes and its own values, in an order that is the same in all equal layers.
struct Layer {
  std::vector<std::size_t> nodes;
  std::vector<std::size_t> values;
  std::vector<Phase> made_in;
  std::size_t signature = 0;
};

/// The module of each node. Nodes of the autograd engine and of the optimizer without a module belong to the
/// module of their inputs.
std::vector<std::string> owners(const Graph& graph) {
  std::vector<std::string> of_value(graph.values.size());
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const auto kind = graph.values[i].kind;
    if (kind != ValueKind::input && !graph.values[i].name.empty()) of_value[i] = owner_of(graph.values[i].name);
  }
  std::vector<std::string> owners;
  for (const auto& node : graph.nodes) {
    std::string owner = node.module;
    for (std::size_t i = 0; owner.empty() && node.phase != Phase::forward && i < node.inputs.size(); ++i) {
      if (node.inputs[i] != kNoValue) owner = of_value[node.inputs[i]];
    }
    for (const auto output : node.outputs) {
      if (output != kNoValue && of_value[output].empty()) of_value[output] = owner;
    }
    owners.push_back(std::move(owner));
  }
  return owners;
}

void mix(std::size_t& hash, const std::string& text) {
  hash ^= std::hash<std::string>()(text) + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
}

using LayerTable = std::map<std::string, std::map<int, Layer>>;

LayerTable find_layers(const Graph& graph, const Program& whole) {
  LayerTable layers;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const auto& value = graph.values[i];
    if (value.name.empty() || value.kind == ValueKind::input) continue;
    const auto at = in_layer(value.name);
    if (!at) continue;
    auto& layer = layers[at->list][at->layer];
    layer.values.push_back(i);
    layer.made_in.push_back(Phase::forward);
    mix(layer.signature, fmt::format("{} {}", at->rest, static_cast<int>(value.kind)));
    for (const auto size : value.info.sizes) mix(layer.signature, std::to_string(size));
  }
  const auto owner = owners(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto at = in_layer(owner[i]);
    if (!at) continue;
    auto& layer = layers[at->list][at->layer];
    const auto& node = graph.nodes[i];
    layer.nodes.push_back(i);
    mix(layer.signature, fmt::format("{} {} {}", at->rest, whole.steps[i].op, static_cast<int>(node.phase)));
    for (const auto output : node.outputs) {
      const bool named = output != kNoValue && !graph.values[output].name.empty();
      if (output == kNoValue || named || std::find(node.inputs.begin(), node.inputs.end(), output) != node.inputs.end())
        continue;
      layer.values.push_back(output);
      layer.made_in.push_back(node.phase);
    }
  }
  return layers;
}

/// The replacement of layers by their representatives.
class Folding {
 public:
  explicit Folding(const Graph& graph) : gone_(graph.nodes.size()), times_(graph.nodes.size(), 1) {}

  /// Folds `run`, which are consecutive equal layers.
  void fold(const std::vector<const Layer*>& run) {
    const Layer& second = *run[1];
    const Layer& last = *run.back();
    for (std::size_t k = 2; k + 1 < run.size(); ++k) {
      for (const auto node : run[k]->nodes) gone_[node] = true;
      for (std::size_t i = 0; i < run[k]->values.size(); ++i) {
        // Backward runs from the last layer to the first.
        const auto& instead = run[k]->made_in[i] == Phase::backward ? last : second;
        instead_[run[k]->values[i]] = instead.values[i];
        decided_by_[run[k]->values[i]] = second.values[i];
      }
    }
    const auto times = static_cast<double>(run.size() - 2);
    for (const auto node : second.nodes) times_[node] = times;
    for (const auto value : second.values) value_times_[value] = times;
    left_out_ += run.size() - 3;
  }

  Folded apply(const Graph& graph, const Program& whole) && {
    Graph folded;
    std::vector<double> times;
    // Values keep their indices; those of removed layers are unused.
    folded.values = graph.values;
    for (const auto& [value, other] : decided_by_)
      folded.values[value] = {.info = {}, .kind = ValueKind::activation, .name = {}};
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (gone_[i]) continue;
      folded.nodes.push_back(graph.nodes[i]);
      times.push_back(times_[i]);
      for (auto& input : folded.nodes.back().inputs) input = here(input);
      for (auto& output : folded.nodes.back().outputs) output = here(output);
    }
    Folded result{.program = compile(folded, times), .decided_by = {}, .layers_left_out = left_out_};
    for (const auto& [value, count] : value_times_) {
      auto& item = result.program.values[value];
      if (item.kind != ValueKind::activation) item.times = count;
    }
    for (const auto parameter : whole.parameters) {
      const auto found = decided_by_.find(parameter);
      result.decided_by.push_back(found == decided_by_.end() ? parameter : found->second);
    }
    return result;
  }

 private:
  std::size_t here(std::size_t value) const {
    const auto found = instead_.find(value);
    return found == instead_.end() ? value : found->second;
  }

  std::vector<bool> gone_;
  std::vector<double> times_;
  std::unordered_map<std::size_t, std::size_t> instead_;
  std::unordered_map<std::size_t, std::size_t> decided_by_;
  std::unordered_map<std::size_t, double> value_times_;
  std::size_t left_out_ = 0;
};

constexpr std::size_t kShortestRun = 4;

bool alike(const Layer& a, const Layer& b) {
  return a.signature == b.signature && a.nodes.size() == b.nodes.size() && a.values.size() == b.values.size() &&
         a.made_in == b.made_in;
}

}  // namespace

Folded fold_repeats(const Graph& graph, const Program& whole) {
  Folding folding(graph);
  for (const auto& [list, layers] : find_layers(graph, whole)) {
    std::vector<const Layer*> run;
    int next = 0;
    const auto end_run = [&] {
      if (run.size() >= kShortestRun) folding.fold(run);
      run.clear();
    };
    for (const auto& [number, layer] : layers) {
      if (!run.empty() && (number != next || !alike(*run.back(), layer))) end_run();
      run.push_back(&layer);
      next = number + 1;
    }
    end_run();
  }
  return std::move(folding).apply(graph, whole);
}

}  // namespace lockstep::plan
