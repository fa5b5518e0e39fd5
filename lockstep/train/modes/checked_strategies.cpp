// Checks of operator and input strategies against model, traced operators and mesh, with the key's place in errors;
// and their conversion into constraints of the planner's search.
#include <lockstep/base/error.h>
#include <lockstep/plan/given_strategies.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/modes/checked_strategies.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/modes/strategies.h>
#include <lockstep/train/modes/strategy_names.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace lockstep::train {
namespace {

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
void require_a_mesh(const plan::SearchOptions& options, const RunConfig& config, int devices) {
  const auto shapes = plan::mesh_shapes(devices, options.most_axes);
  if (std::any_of(shapes.begin(), shapes.end(), [&](const auto& each) { return options.constraints_on(each); })) return;
  const auto& node = is_given(config.parallel.strategy) ? config.parallel.strategy : config.parallel.dataset_strategy;
  refuse_at(node.position,
            fmt::format("parallel.strategy and dataset_strategy: no mesh of {} devices with up to {} axes has "
                        "axes for all of them; all parts that are divided by one axis are equal to its size",
                        devices, options.most_axes));
}

}  // namespace

RunConfig with_checked_strategies(const RunConfig& config, const Program& program, int devices) {
  if (!is_global_mode(config.parallel) || !has_strategies(config.parallel)) return config;
  RunConfig checked = config;
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

PlannedSearch planned_search(const RunConfig& config, const Program& program, int devices) {
  const auto samples = samples_of_step(config, devices);
  PlannedSearch search{.step = trace_run(config, program, samples),
                       .options = search_options(config.parallel, devices)};
  if (!has_strategies(config.parallel)) return search;
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
