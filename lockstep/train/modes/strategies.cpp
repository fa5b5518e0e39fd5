// The parser of strategy tuples from YAML: layers become parameter placements, other keys become operator strategies;
// inputs of a batch become placements by name.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/global/operator_strategy.h>
#include <lockstep/train/modes/strategies.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

namespace lockstep::train {
namespace {

constexpr std::string_view kDataParallel = "data_parallel";
constexpr std::string_view kFullBatch = "full_batch";

/// [[2, 1], [4, 1]] as the text that parse_strategy reads.
std::string tuples_text(const ConfigNode& node) {
  if (node.kind == ConfigNode::Kind::scalar) return node.scalar;
  std::string text = "(";
  for (const auto& item : node.items) text += tuples_text(item) + ',';
  return text + ')';
}

bool is_one_tuple(const ConfigNode& node) {
  return node.kind == ConfigNode::Kind::list && !node.items.empty() &&
         std::all_of(node.items.begin(), node.items.end(),
                     [](const ConfigNode& item) { return item.kind == ConfigNode::Kind::scalar; });
}

/// An operator with one input needs no outer brackets.
Strategy tuples_of(const ConfigNode& node) {
  return parse_strategy(is_one_tuple(node) ? "(" + tuples_text(node) + ")" : tuples_text(node));
}

struct InAndOut {
  Strategy in;
  Strategy out;
};

InAndOut from_text(const std::string& text) {
  constexpr std::string_view kArrow = "->";
  const auto arrow = text.find(kArrow);
  if (arrow == std::string::npos) return {.in = parse_strategy(text), .out = {}};
  const auto before = text.substr(0, arrow);
  const bool free = before.find_first_not_of(' ') == std::string::npos;
  return {.in = free ? Strategy{} : parse_strategy(before), .out = parse_strategy(text.substr(arrow + kArrow.size()))};
}

InAndOut from_map(const ConfigNode& node) {
  InAndOut both;
  for (const auto& [key, value] : node.entries) {
    if (key != "in" && key != "out") {
      const std::vector<std::string> known{"in", "out"};
      fail(ErrorKind::invalid_argument, "strategy", "there is no key '{}', only in and out{}", key,
           did_you_mean(key, known));
    }
    (key == "in" ? both.in : both.out) = tuples_of(value);
  }
  if (both.in.empty() && both.out.empty()) {
    fail(ErrorKind::invalid_argument, "strategy", "neither in nor out is given");
  }
  return both;
}

InAndOut both_of(const std::string& key, const ConfigNode& value) {
  try {
    if (value.kind == ConfigNode::Kind::map) return from_map(value);
    if (value.kind == ConfigNode::Kind::scalar) return from_text(value.scalar);
    return {.in = tuples_of(value), .out = {}};
  } catch (const Error& error) {
    refuse_at(value.position, fmt::format("parallel.strategy: {}: {}", key, error.message()));
  }
}

/// The layers with weights that a key names.
std::vector<std::string> layers_of(std::string_view key, const std::vector<std::string>& names) {
  constexpr std::string_view kWeight = ".weight";
  std::vector<std::string> layers;
  for (const auto& name : names) {
    if (!name.ends_with(kWeight)) continue;
    auto layer = name.substr(0, name.size() - kWeight.size());
    if (fits(layer, key)) layers.push_back(std::move(layer));
  }
  return layers;
}

void add_operator(GivenStrategies& given, global::OperatorStrategy strategy, const FilePosition& position) {
  given.operators.push_back(std::make_shared<const global::OperatorStrategy>(std::move(strategy)));
  given.positions.push_back(position);
}

/// Whether a value of parallel.dataset_strategy is a tuple, not placements.
bool is_tuple(const ConfigNode& node) {
  if (is_one_tuple(node))
    return std::all_of(node.items.begin(), node.items.end(), [](const ConfigNode& item) {
      return item.scalar.find_first_not_of("0123456789") == std::string::npos;
    });
  return node.kind == ConfigNode::Kind::scalar &&
         node.scalar.find_first_not_of("0123456789()[], ") == std::string::npos;
}

std::vector<std::int64_t> tuple_of(const ConfigNode& node, const std::string& input) {
  try {
    const auto read = parse_strategy("(" + tuples_text(node) + ")");
    if (read.size() == 1) return read.front();
  } catch (const Error& error) {
    refuse_at(node.position, fmt::format("parallel.dataset_strategy: {}: {}", input, error.message()));
  }
  refuse_at(node.position,
            fmt::format("parallel.dataset_strategy: {}: one tuple is expected, such as [2, 1, 1, 1]", input));
}

[[noreturn]] void no_dataset_strategy(const ConfigNode& node) {
  refuse_at(
      node.position,
      fmt::format("parallel.dataset_strategy: expected data_parallel, full_batch, or the parts of each input, such as "
                  "{{pictures: [2, 1, 1, 1], labels: [2]}}, found {}",
                  describe_found(node)));
}

bool is_word(const ConfigNode& node) {
  return node.kind == ConfigNode::Kind::scalar && (node.scalar == kDataParallel || node.scalar == kFullBatch);
}

}  // namespace

bool names_layer(std::string_view key, const std::vector<std::string>& names) { return !layers_of(key, names).empty(); }

GivenStrategies read_strategies(const ParallelConfig& config, const std::vector<std::string>& names) {
  GivenStrategies given;
  const auto& node = config.strategy;
  if (node.kind == ConfigNode::Kind::null) return given;
  if (node.kind != ConfigNode::Kind::map) {
    refuse_at(
        node.position,
        fmt::format("parallel.strategy: expected layers and operators with their tuples, such as {{fc: [[2, 1], [4, "
                    "1]], relu: [[2, 4]]}}, found {}",
                    describe_found(node)));
  }
  for (const auto& [key, value] : node.entries) {
    auto [in, out] = both_of(key, value);
    const auto layers = layers_of(key, names);
    const auto dot = key.rfind('.');
    const auto op = key.substr(dot == std::string::npos ? 0 : dot + 1);
    if (layers.empty() && global::is_operator_name(op)) {
      add_operator(given,
                   {.module = dot == std::string::npos ? "" : key.substr(0, dot),
                    .op = op,
                    .inputs = std::move(in),
                    .outputs = std::move(out)},
                   value.position);
      continue;
    }
    if (!in.empty()) {
      for (const auto& layer : layers) given.layers.push_back({layer, in, value.position});
      if (layers.empty()) given.layers.push_back({key, std::move(in), value.position});
    }
    if (!out.empty()) {
      add_operator(given,
                   {.module = key, .op = std::string(global::kOfWeights), .inputs = {}, .outputs = std::move(out)},
                   value.position);
    }
  }
  return given;
}

ModulePlan plan_of_layers(const GivenStrategies& given, std::span<const int> mesh_sizes,
                          std::span<const std::string> mesh_names, const std::vector<std::string>& names) {
  ModulePlan plan;
  for (const auto& [layer, tuples, position] : given.layers) {
    const std::vector<std::pair<std::string, Strategy>> one{{layer, tuples}};
    try {
      const auto of_layer = plan_of_strategies(one, mesh_sizes, mesh_names, names);
      plan.insert(plan.end(), of_layer.begin(), of_layer.end());
    } catch (const Error& error) {
      refuse_at(position, "parallel.strategy: " + error.message());
    }
  }
  return plan;
}

std::vector<std::pair<std::string, std::vector<std::int64_t>>> input_tuples(const ConfigNode& node,
                                                                            const std::vector<std::string>& inputs) {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> tuples;
  if (node.kind == ConfigNode::Kind::null || is_word(node)) return tuples;
  if (node.kind == ConfigNode::Kind::map) {
    for (const auto& [name, value] : node.entries) {
      if (std::find(inputs.begin(), inputs.end(), name) == inputs.end()) {
        refuse_at(value.position, fmt::format("parallel.dataset_strategy: a batch has no input {}, only {}{}", name,
                                              fmt::join(inputs, ", "), did_you_mean(name, inputs)));
      }
      if (is_tuple(value)) tuples.emplace_back(name, tuple_of(value, name));
    }
    return tuples;
  }
  std::optional<Strategy> read;
  try {
    read = parse_strategy(tuples_text(node));
  } catch (const Error&) {
    no_dataset_strategy(node);
  }
  if (read->size() != inputs.size()) {
    refuse_at(node.position,
              fmt::format("parallel.dataset_strategy: {} tuple(s) are given, but a batch has {} input(s), in "
                          "this order: {}",
                          read->size(), inputs.size(), fmt::join(inputs, ", ")));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) tuples.emplace_back(inputs[i], (*read)[i]);
  return tuples;
}

BatchLayout batch_layout(const ConfigNode& node, const MeshLayout& mesh) {
  const auto along_data = global::along_data(mesh.sizes, mesh.names);
  const Placements whole(mesh.sizes.size());
  if (node.kind == ConfigNode::Kind::null || (is_word(node) && node.scalar == kDataParallel)) {
    return {.loaded = along_data, .inputs = {}};
  }
  if (is_word(node)) return {.loaded = whole, .inputs = {}};
  if (node.kind != ConfigNode::Kind::map) no_dataset_strategy(node);  // a list becomes a map if names are known
  BatchLayout batch{.loaded = along_data, .inputs = {}};
  for (const auto& [name, value] : node.entries) {
    auto& placements = batch.inputs[name];
    if (!is_tuple(value)) {
      placements = read_placements(value, mesh, "parallel.dataset_strategy: " + name);
      continue;
    }
    const auto found = global::placements_with_parts(tuple_of(value, name), mesh.sizes, along_data);
    if (!found) {
      refuse_at(
          value.position,
          fmt::format("parallel.dataset_strategy: {}: the mesh {} ({}) has no axes for the parts ({})", name,
                      fmt::join(mesh.sizes, "x"), fmt::join(mesh.names, ", "), fmt::join(tuple_of(value, name), ", ")));
    }
    placements = *found;
  }
  // Ranks load the part that all inputs are divided into.
  for (std::size_t axis = 0; axis < whole.size(); ++axis) {
    const bool by_all = std::all_of(batch.inputs.begin(), batch.inputs.end(),
                                    [&](const auto& each) { return each.second[axis].is_shard(0); });
    batch.loaded[axis] = by_all ? Shard(0) : Replicate();
  }
  std::erase_if(batch.inputs, [&](const auto& each) { return each.second == batch.loaded; });
  return batch;
}

}  // namespace lockstep::train
