// Checks of operator and input strategies against model, traced operators and mesh, with the key's place in errors, and
// their conversion into constraints of the planner's search. Weightless modules such as ReLU become names of operators.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/operator_strategy.h>
#include <lockstep/plan/graph.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/modes/strategies.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <set>

namespace lockstep::train {
namespace {

/// The facts about a model for checks of strategies: names of parameters and buffers, sizes of parameters, and the
/// modules without any.
struct ModelFacts {
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::int64_t>> sizes;
  struct Plain {
    std::string name;
    std::string kind;    ///< "ReLU"
    std::string before;  ///< the module with parameters that is registered before it; empty: none
  };
  std::vector<Plain> plain;
};

/// "ReLU" of "torch::nn::ReLUImpl".
std::string kind_of_module(const torch::nn::Module& module) {
  std::string name = module.name();
  name.erase(0, name.rfind(':') == std::string::npos ? 0 : name.rfind(':') + 1);
  constexpr std::string_view kEnding = "Impl";
  if (name.ends_with(kEnding)) name.resize(name.size() - kEnding.size());
  return name;
}

/// The operators of libtorch's modules without parameters.
std::vector<std::string> operators_of_kind(const std::string& kind) {
  static const std::map<std::string, std::vector<std::string>> table{
      {"ReLU", {"relu"}},
      {"ReLU6", {"hardtanh"}},
      {"LeakyReLU", {"leaky_relu"}},
      {"ELU", {"elu"}},
      {"GELU", {"gelu"}},
      {"SiLU", {"silu"}},
      {"Tanh", {"tanh"}},
      {"Sigmoid", {"sigmoid"}},
      {"Softplus", {"softplus"}},
      {"Softmax", {"softmax"}},
      {"LogSoftmax", {"log_softmax"}},
      {"MaxPool2d", {"max_pool2d"}},
      {"AvgPool2d", {"avg_pool2d"}},
      {"AdaptiveAvgPool2d", {"adaptive_avg_pool2d", "mean"}},
      {"AdaptiveMaxPool2d", {"adaptive_max_pool2d"}},
  };
  const auto found = table.find(kind);
  return found == table.end() ? std::vector<std::string>{} : found->second;
}

/// The operators of a traced step by name.
class TracedOperators {
 public:
  explicit TracedOperators(const plan::Graph& graph) {
    for (const auto& each : plan::named_operators(graph)) names_.insert(each.name);
  }

  /// Whether an operator in `module` has this name; `here_alone`: only operators of the module itself.
  bool has(const std::string& module, const std::string& op, bool here_alone = false) const {
    return std::any_of(names_.begin(), names_.end(), [&](const std::string& name) {
      const auto dot = name.rfind('.');
      if (name.substr(dot == std::string::npos ? 0 : dot + 1) != op) return false;
      const auto owner = dot == std::string::npos ? std::string() : name.substr(0, dot);
      return module.empty() || fits(owner, module) || (!here_alone && fits(owner, module + ".*"));
    });
  }
  std::vector<std::string> all() const { return {names_.begin(), names_.end()}; }

 private:
  std::set<std::string> names_;
};

/// The name in operators of a key that names a module without parameters: the operator that follows the module before
/// it, else each operator of this kind in the module that it is in.
std::optional<std::string> operator_of_module(const std::string& key, const ModelFacts& facts,
                                              const TracedOperators& operators) {
  const auto found =
      std::find_if(facts.plain.begin(), facts.plain.end(), [&](const auto& each) { return each.name == key; });
  if (found == facts.plain.end()) return std::nullopt;
  const auto joined = [](const std::string& module, const std::string& op) {
    return module.empty() ? op : module + "." + op;
  };
  for (const auto& op : operators_of_kind(found->kind)) {
    if (!found->before.empty() && operators.has(found->before, op, /*here_alone=*/true))
      return joined(found->before, op);
    const std::string parent(global::owner_of(key));
    if (operators.has(parent, op)) return joined(parent, op);
  }
  return std::nullopt;
}

[[noreturn]] void unknown_name(const std::string& key, const FilePosition& position, const ModelFacts& facts,
                               const TracedOperators& operators) {
  auto names = operators.all();
  for (const auto& each : facts.plain) names.push_back(each.name);
  for (const auto& each : facts.names) {
    if (each.ends_with(".weight")) names.emplace_back(global::owner_of(each));
  }
  const auto hint = did_you_mean(key, names);
  throw Error(
      ErrorKind::config, "config",
      fmt::format("parallel.strategy: the model has no layer and no operator {}{}", key,
                  hint.empty() ? fmt::format("; its operators are {}", fmt::join(operators.all(), ", ")) : hint),
      position);
}

ModelFacts facts_of(const ResolvedRun& config, const Program& program) {
  const auto model = model_without_memory(config, program);
  ModelFacts facts;
  for (const auto& each : model.module->named_parameters()) {
    facts.names.push_back(each.key());
    facts.sizes.emplace(each.key(), each.value().sizes().vec());
  }
  for (const auto& each : model.module->named_buffers()) facts.names.push_back(each.key());
  std::string before;
  for (const auto& each : model.module->named_modules(/*name_prefix=*/std::string(), /*include_self=*/false)) {
    const auto& module = *each.value();
    if (!module.children().empty()) continue;
    if (module.parameters().empty() && module.buffers().empty()) {
      facts.plain.push_back({each.key(), kind_of_module(module), before});
    } else {
      before = each.key();
    }
  }
  return facts;
}

/// parallel.strategy with each name of a module without parameters (a torch::nn::ReLU called "features.1") replaced by
/// that of its operator ("features.0.relu", named after the preceding module), so that read_strategies() can read the
/// keys. Error(config) with file and line for a key that names nothing in the model.
ConfigNode with_names_of_operators(const ConfigNode& strategy, const ModelFacts& facts, const plan::Graph& graph) {
  const TracedOperators operators(graph);
  ConfigNode named = strategy;
  for (auto& [key, value] : named.entries) {
    if (names_layer(key, facts.names)) continue;
    if (auto name = operator_of_module(key, facts, operators)) {
      key = *name;
      continue;
    }
    const auto dot = key.rfind('.');
    const auto op = key.substr(dot == std::string::npos ? 0 : dot + 1);
    if (!operators.has(dot == std::string::npos ? "" : key.substr(0, dot), op)) {
      unknown_name(key, value.position, facts, operators);
    }
  }
  return named;
}

void check_layers(const GivenStrategies& given, const ModelFacts& facts, int devices) {
  for (const auto& [layer, tuples, position] : given.layers) {
    const auto weight = facts.sizes.find(layer + ".weight");
    if (weight == facts.sizes.end() || tuples.size() != 2) continue;  // plan_of_layers() reports it
    const auto mistake = global::mistake_in(tuples[1], weight->second, devices);
    if (!mistake.empty()) {
      refuse_at(position,
                fmt::format("parallel.strategy: {}: the tuple of the weight: {}; parallel.shard also makes uneven "
                            "parts",
                            layer, mistake));
    }
  }
}

/// Throws the first mistake that `mistake_of` finds in the strategies of operators, with key and position.
template <typename MistakeOf>
void check_operators(const std::vector<plan::GivenStrategy>& strategies, const GivenStrategies& given,
                     const MistakeOf& mistake_of) {
  for (const auto& each : strategies) {
    const std::string mistake = mistake_of(each);
    if (mistake.empty()) continue;
    const auto at = std::find(given.operators.begin(), given.operators.end(), each.strategy) - given.operators.begin();
    refuse_at(given.positions.at(static_cast<std::size_t>(at)),
              fmt::format("parallel.strategy: {}: {}", global::name_of(*each.strategy), mistake));
  }
}

void check_tuples(const std::vector<plan::GivenStrategy>& strategies, const GivenStrategies& given, int devices) {
  check_operators(strategies, given, [&](const plan::GivenStrategy& each) {
    return global::mistake_in(*each.strategy, each.call, devices);
  });
}

void check_on_mesh(const std::vector<plan::GivenStrategy>& strategies, const GivenStrategies& given,
                   const MeshLayout& mesh) {
  check_operators(strategies, given, [&](const plan::GivenStrategy& each) {
    return global::mistake_on_mesh(*each.strategy, each.call, global::find_rule(each.call.name), mesh.sizes,
                                   mesh.names);
  });
}

std::vector<std::string> names_of(const std::vector<plan::ExampleInput>& inputs) {
  std::vector<std::string> names;
  for (const auto& each : inputs) names.push_back(each.name);
  return names;
}

/// parallel.dataset_strategy with the names of inputs.
ConfigNode with_names_of_inputs(const ConfigNode& node, const std::vector<plan::ExampleInput>& inputs) {
  const auto tuples = input_tuples(node, names_of(inputs));
  if (tuples.empty() || node.kind == ConfigNode::Kind::map) return node;
  ConfigNode named = make_section(node.position);
  for (const auto& [name, tuple] : tuples) {
    auto text = make_scalar(fmt::format("({})", fmt::join(tuple, ", ")));
    text.position = node.position;
    named.entries.push_back({name, std::move(text)});
  }
  return named;
}

void check_inputs(const ConfigNode& node, const std::vector<plan::ExampleInput>& inputs, int devices) {
  const auto names = names_of(inputs);
  for (const auto& [name, tuple] : input_tuples(node, names)) {
    const auto input = std::find(names.begin(), names.end(), name) - names.begin();
    const auto mistake = global::mistake_in(tuple, inputs.at(static_cast<std::size_t>(input)).sizes, devices);
    if (!mistake.empty()) {
      refuse_at(node.find(name)->position, fmt::format("parallel.dataset_strategy: {}: {}", name, mistake));
    }
  }
}

/// Whether a step must be traced: operators have strategies, or outputs of layers.
bool needs_operators(const ParallelConfig& config, const ModelFacts& facts) {
  if (config.strategy.kind != ConfigNode::Kind::map) return false;
  const auto& entries = config.strategy.entries;
  return std::any_of(entries.begin(), entries.end(),
                     [&](const auto& each) { return !names_layer(each.key, facts.names); }) ||
         !read_strategies(config, facts.names).operators.empty();
}

bool is_given(const ConfigNode& node) { return node.kind != ConfigNode::Kind::null; }

bool has_strategies(const ParallelConfig& config) {
  return is_given(config.strategy) || is_given(config.dataset_strategy);
}

/// The names in parallel.shard, before data is loaded and ranks exchange weights. A module that cannot be made without
/// memory is checked when the session has made it.
void check_shard(const ResolvedRun& config, const Program& program, int devices) {
  if (!is_given(config.parallel.shard)) return;
  std::optional<ModelFacts> facts;
  try {
    facts = facts_of(config, program);
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    return;
  }
  whole_plan(config.parallel, mesh_layout(config.parallel, devices), facts->names);
}

/// Names for the axes of a mesh that has none yet: strategies divide the batch along the first axis, and other
/// dimensions of layers along the last axis.
std::vector<std::string> likely_names(std::size_t axes) {
  std::vector<std::string> names(axes);
  names.front() = "data";
  if (axes > 1) names.back() = "model";
  return names;
}

/// The user's decisions on a mesh without names; nullopt: the mesh has no axes for them.
std::optional<plan::Constraints> constraints_on(const GivenStrategies& given,
                                                const std::vector<plan::GivenStrategy>& operators,
                                                const ConfigNode& dataset, const std::vector<std::string>& names,
                                                const std::vector<int>& sizes) {
  for (const auto& each : operators) {
    const auto* rule = global::find_rule(each.call.name);
    if (!global::mistake_on_mesh(*each.strategy, each.call, rule, sizes, {}).empty()) return std::nullopt;
  }
  const MeshLayout mesh{.sizes = sizes, .names = likely_names(sizes.size())};
  plan::Constraints constraints;
  try {
    constraints.parameters = plan_of_layers(given, mesh.sizes, mesh.names, names);
    if (dataset.kind == ConfigNode::Kind::null) return constraints;
    auto batch = batch_layout(dataset, mesh);
    if (dataset.scalar == "data_parallel") batch.loaded = Placements(sizes.size(), Shard(0));
    constraints.inputs = std::move(batch.loaded);
    constraints.inputs_by_name = std::move(batch.inputs);
  } catch (const Error&) {  // strategies that are impossible on every mesh were found before
    return std::nullopt;
  }
  return constraints;
}

/// Error(config) if no mesh can satisfy the strategies.
void require_a_mesh(const plan::SearchOptions& options, const ResolvedRun& config, int devices) {
  const auto shapes = plan::mesh_shapes(devices, options.most_axes);
  if (std::any_of(shapes.begin(), shapes.end(), [&](const auto& each) { return options.constraints_on(each); })) return;
  const auto& node = is_given(config.parallel.strategy) ? config.parallel.strategy : config.parallel.dataset_strategy;
  refuse_at(node.position,
            fmt::format("parallel.strategy and dataset_strategy: no mesh of {} devices with up to {} axes has "
                        "axes for all of them; all parts that are divided by one axis are equal to its size",
                        devices, options.most_axes));
}

}  // namespace

ResolvedRun with_checked_strategies(const ResolvedRun& config, const Program& program, int devices) {
  if (!is_global_mode(config.parallel)) return config;
  if (!has_strategies(config.parallel)) {
    check_shard(config, program, devices);
    return config;
  }
  ResolvedRun checked = config;
  auto& parallel = checked.parallel;
  const auto mesh = mesh_layout(parallel, devices);
  std::vector<plan::ExampleInput> inputs;  // read once: a program's own data may have to be loaded for them
  if (is_given(parallel.dataset_strategy)) {
    inputs = inputs_of_step(program, 1);
    parallel.dataset_strategy = with_names_of_inputs(parallel.dataset_strategy, inputs);
    batch_layout(parallel, mesh);
  }
  const auto samples = global_batch_size_of(config.data, global_data_share(parallel, /*rank=*/0, devices).count);
  for (auto& input : inputs) input.sizes.front() = samples;
  if (is_given(parallel.dataset_strategy)) check_inputs(parallel.dataset_strategy, inputs, devices);
  const auto facts = facts_of(config, program);
  std::optional<PlannedStep> step;
  if (needs_operators(parallel, facts)) {
    step = trace_run(config, program, samples);
    parallel.strategy = with_names_of_operators(parallel.strategy, facts, step->graph);
  }
  const auto given = read_strategies(parallel, facts.names);
  check_layers(given, facts, devices);
  whole_plan(parallel, mesh, facts.names);
  if (!step) return checked;
  const auto operators = plan::give_strategies(step->graph, given.operators);
  check_tuples(operators, given, devices);
  check_on_mesh(operators, given, mesh);
  return checked;
}

PlannedSearch planned_search(const ResolvedRun& config, const Program& program, int devices) {
  const auto samples = samples_of_step(config, devices);
  PlannedSearch search{.step = trace_run(config, program, samples),
                       .options = search_options(config.parallel, devices)};
  if (!has_strategies(config.parallel)) {
    check_shard(config, program, devices);
    return search;
  }
  auto parallel = config.parallel;
  if (is_given(parallel.dataset_strategy)) {
    const auto inputs = inputs_of_step(program, samples);
    parallel.dataset_strategy = with_names_of_inputs(parallel.dataset_strategy, inputs);
    check_inputs(parallel.dataset_strategy, inputs, devices);
  }
  const auto facts = facts_of(config, program);
  if (is_given(parallel.strategy)) {
    parallel.strategy = with_names_of_operators(parallel.strategy, facts, search.step.graph);
  }
  const auto given = read_strategies(parallel, facts.names);
  check_layers(given, facts, devices);
  const auto operators = plan::give_strategies(search.step.graph, given.operators);
  check_tuples(operators, given, devices);
  if (!search.options.mesh) {
    search.options.constraints_on = [=, names = facts.names](const std::vector<int>& sizes) {
      return constraints_on(given, operators, parallel.dataset_strategy, names, sizes);
    };
    require_a_mesh(search.options, config, devices);
    return search;
  }
  const auto mesh = mesh_layout(parallel, devices);
  check_on_mesh(operators, given, mesh);
  auto& constraints = search.options.constraints;
  constraints.parameters = whole_plan(parallel, mesh, facts.names);
  if (is_given(parallel.dataset_strategy)) {
    const auto batch = batch_layout(parallel, mesh);
    constraints.inputs = batch.loaded;
    constraints.inputs_by_name = batch.inputs;
  }
  return search;
}

}  // namespace lockstep::train
