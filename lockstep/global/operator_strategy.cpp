// The nearest common module of an operator's inputs, by dotted names, where containers are skipped; names of operators
// in strategies; and the search for signatures that divide an operator according to its strategy.
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/operator_strategy.h>
#include <lockstep/global/rules/choose.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

namespace lockstep::global {
namespace {

/// The child of `from` on the path down to `to`.
std::string_view one_down(std::string_view from, std::string_view to) {
  return to.substr(0, to.find('.', from.empty() ? 0 : from.size() + 1));
}

}  // namespace

bool is_inside(std::string_view name, std::string_view module) {
  return module.empty() || (name.starts_with(module) && (name.size() == module.size() || name[module.size()] == '.'));
}

std::string_view common_module(std::string_view a, std::string_view b) {
  while (!is_inside(b, a)) a = owner_of(a);
  return a;
}

std::string joining_module(std::span<const std::string> inputs, const std::set<std::string, std::less<>>& containers) {
  if (inputs.empty()) return {};
  const std::string_view last = inputs.back();
  std::string_view joined = last;
  for (const auto& each : inputs) joined = common_module(joined, each);
  while (joined != last && (joined.empty() || containers.contains(joined))) joined = one_down(joined, last);
  return std::string(joined);
}

namespace {

constexpr std::array<std::string_view, 5> kProducts{"mm", "bmm", "addmm", "baddbmm", "matmul"};

bool is_product(std::string_view op) { return std::find(kProducts.begin(), kProducts.end(), op) != kProducts.end(); }

/// The tensors with a tuple; numbers and arguments that were not given have no tuple.
std::vector<std::size_t> divided_inputs(const OpCall& call) {
  std::vector<std::size_t> inputs;
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    if (call.tensors[i].defined && !call.tensors[i].ordinary) inputs.push_back(i);
  }
  return inputs;
}

std::vector<std::size_t> divided_outputs(const OpCall& call) {
  std::vector<std::size_t> outputs;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputs[i].defined) outputs.push_back(i);
  }
  return outputs;
}

/// A pooling operator also returns positions, in the same placements; they need no tuple.
std::size_t outputs_with_tuples(const OperatorStrategy& strategy, const OpCall& call) {
  return std::min(strategy.outputs.size(), divided_outputs(call).size());
}

/// The number of parts of each dimension under these placements.
std::vector<std::int64_t> parts_of(const Placements& placements, std::size_t dims, std::span<const int> mesh_sizes) {
  std::vector<std::int64_t> parts(dims, 1);
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_shard()) parts.at(static_cast<std::size_t>(placements[axis].dim)) *= mesh_sizes[axis];
  }
  return parts;
}

/// Calls `visit` with each combination of one of `choices[axis]` numbers on each axis.
template <typename Visit>
void for_each_combination(const std::vector<std::size_t>& choices, const Visit& visit) {
  std::vector<std::size_t> now(choices.size(), 0);
  while (true) {
    visit(now);
    std::size_t axis = choices.size();
    while (axis > 0 && ++now[axis - 1] == choices[axis - 1]) now[--axis] = 0;
    if (axis == 0) return;
  }
}

bool divides_inputs(const OperatorStrategy& strategy, const OpCall& call, const std::vector<const Signature*>& by_axis,
                    std::span<const int> mesh_sizes) {
  const auto inputs = divided_inputs(call);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Placements placements(by_axis.size());
    for (std::size_t axis = 0; axis < by_axis.size(); ++axis) {
      const auto& placement = by_axis[axis]->inputs[inputs[i]];
      if (!placement) continue;
      if (placement->is_partial()) return false;
      placements[axis] = *placement;
    }
    if (parts_of(placements, call.tensors[inputs[i]].sizes.size(), mesh_sizes) != strategy.inputs[i]) return false;
  }
  return true;
}

std::string described(const std::vector<std::int64_t>& tuple) { return fmt::format("({})", fmt::join(tuple, ", ")); }

}  // namespace

std::string operator_name(std::string_view op) {
  if (is_product(op)) return "matmul";
  if (op == "_adaptive_avg_pool2d") return "adaptive_avg_pool2d";
  if (op.starts_with('_')) op.remove_prefix(1);
  for (const std::string_view ending : {"_with_indices", "_forward"}) {
    if (op.ends_with(ending)) op.remove_suffix(ending.size());
  }
  return std::string(op);
}

bool is_operator_name(std::string_view name) {
  static const auto names = [] {
    std::set<std::string, std::less<>> all;
    for (const auto& rule : all_rules()) all.insert(operator_name(rule.op));
    return all;
  }();
  return names.contains(name);
}

std::string name_of(const OperatorStrategy& strategy) {
  if (strategy.op == kOfWeights) return strategy.module;
  return strategy.module.empty() ? strategy.op : strategy.module + "." + strategy.op;
}

std::string to_string(const Strategy& strategy) {
  std::vector<std::string> tuples;
  for (const auto& tuple : strategy) tuples.push_back(described(tuple));
  return fmt::format("({})", fmt::join(tuples, ", "));
}

std::string strategy_text(const OperatorStrategy& strategy) {
  const auto inputs = strategy.inputs.empty() ? std::string() : to_string(strategy.inputs);
  if (strategy.outputs.empty()) return inputs;
  return inputs + (inputs.empty() ? "-> " : " -> ") + to_string(strategy.outputs);
}

std::shared_ptr<const OperatorStrategy> find_strategy(const OperatorStrategies& strategies, std::string_view module,
                                                      std::string_view op, bool of_weights) {
  const bool is_layer = of_weights && (is_product(op) || op == "convolution");
  for (const auto& each : strategies) {
    const bool is_whole = each->module.empty() || fits(module, each->module);
    if (is_layer || each->op == kOfWeights) {
      if (is_layer && each->op == kOfWeights && is_whole) return each;
    } else if (each->op == operator_name(op) && (is_whole || fits(module, each->module + ".*"))) {
      return each;
    }
  }
  return nullptr;
}

std::optional<Placements> placements_with_parts(std::span<const std::int64_t> parts, std::span<const int> mesh_sizes,
                                                const Placements& like) {
  std::optional<Placements> best;
  std::size_t least = 0;
  const std::vector<std::size_t> choices(mesh_sizes.size(), parts.size() + 1);  // a dimension, or no dimension
  for_each_combination(choices, [&](const std::vector<std::size_t>& now) {
    Placements placements(mesh_sizes.size());
    for (std::size_t axis = 0; axis < now.size(); ++axis) {
      if (now[axis] > 0) placements[axis] = Shard(static_cast<std::int64_t>(now[axis]) - 1);
    }
    const auto made = parts_of(placements, parts.size(), mesh_sizes);
    if (!std::equal(made.begin(), made.end(), parts.begin())) return;
    std::size_t differs = 0;
    for (std::size_t axis = 0; axis < now.size(); ++axis) differs += placements[axis] == like[axis] ? 0 : 1;
    if (best && differs >= least) return;
    least = differs;
    best = std::move(placements);
  });
  return best;
}

bool is_data_axis(std::string_view name) {
  constexpr std::string_view kDataAxis = "data";
  if (!name.starts_with(kDataAxis)) return false;
  const auto number = name.substr(kDataAxis.size());
  return number.empty() || number == "2" || number == "3";
}

Placements along_data(std::span<const int> mesh_sizes, std::span<const std::string> mesh_names) {
  Placements batch(mesh_sizes.size());
  for (std::size_t axis = 0; axis < mesh_sizes.size(); ++axis) {
    if (mesh_names.empty() ? axis == 0 : is_data_axis(mesh_names[axis])) batch[axis] = Shard(0);
  }
  return batch;
}

std::optional<std::vector<Signature>> signatures_of(const OperatorStrategy& strategy, const OpCall& call,
                                                    const Rule* rule, std::span<const int> mesh_sizes,
                                                    std::span<const std::string> mesh_names) {
  const auto inputs = divided_inputs(call);
  if (strategy.inputs.empty() || strategy.inputs.size() != inputs.size()) return std::nullopt;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (strategy.inputs[i].size() != call.tensors[inputs[i]].sizes.size()) return std::nullopt;
  }
  int all_ranks = 1;
  for (const int ranks : mesh_sizes) all_ranks *= ranks;
  std::vector<std::vector<Signature>> candidates;
  std::vector<std::size_t> choices;
  for (const int ranks : mesh_sizes) {
    candidates.push_back(candidates_of(rule, call, ranks, all_ranks));
    choices.push_back(candidates.back().size());
  }
  const auto batch = along_data(mesh_sizes, mesh_names);
  std::optional<std::vector<Signature>> best;
  std::size_t least = 0;
  for_each_combination(choices, [&](const std::vector<std::size_t>& now) {
    std::vector<const Signature*> by_axis;
    for (std::size_t axis = 0; axis < now.size(); ++axis) by_axis.push_back(&candidates[axis][now[axis]]);
    if (!divides_inputs(strategy, call, by_axis, mesh_sizes)) return;
    std::size_t differs = 0;  // if there is a choice, a batch is divided along the axes for the batch
    for (std::size_t axis = 0; axis < now.size(); ++axis) {
      const auto& first = by_axis[axis]->inputs[inputs.front()];
      differs += (first && first->is_shard(0)) == batch[axis].is_shard(0) ? 0 : 1;
    }
    if (best && differs >= least) return;
    least = differs;
    best.emplace();
    for (const auto* each : by_axis) best->push_back(*each);
  });
  return best;
}

std::vector<Placements> outputs_of(const OperatorStrategy& strategy, const OpCall& call, std::vector<Placements> now,
                                   std::span<const int> mesh_sizes) {
  const auto outputs = divided_outputs(call);
  for (std::size_t i = 0; i < outputs_with_tuples(strategy, call); ++i) {
    auto& placements = now.at(outputs[i]);
    if (strategy.outputs[i].size() != call.outputs[outputs[i]].sizes.size()) continue;
    if (const auto wanted = placements_with_parts(strategy.outputs[i], mesh_sizes, placements)) placements = *wanted;
  }
  return now;
}

std::string mistake_in(std::span<const std::int64_t> parts, std::span<const std::int64_t> sizes, int devices) {
  if (parts.size() != sizes.size()) {
    return fmt::format("({}) has {} numbers, but the tensor [{}] has {} dimensions; one number for each is needed",
                       fmt::join(parts, ", "), parts.size(), fmt::join(sizes, ", "), sizes.size());
  }
  std::int64_t all = 1;
  for (std::size_t dim = 0; dim < parts.size(); ++dim) {
    if (parts[dim] > devices || (all *= parts[dim]) > devices) {
      return fmt::format("({}) makes more parts than there are devices, {}", fmt::join(parts, ", "), devices);
    }
    if (sizes[dim] % parts[dim] != 0) {
      return fmt::format("dimension {} of the tensor [{}] does not divide into {} equal parts", dim,
                         fmt::join(sizes, ", "), parts[dim]);
    }
  }
  if (devices % all != 0) {
    return fmt::format("({}) makes {} parts, but the number of devices, {}, is not a multiple of that",
                       fmt::join(parts, ", "), all, devices);
  }
  return {};
}

std::string mistake_in(const OperatorStrategy& strategy, const OpCall& call, int devices) {
  const auto inputs = divided_inputs(call);
  if (!strategy.inputs.empty() && strategy.inputs.size() != inputs.size()) {
    return fmt::format("{} tuple(s) are given for the inputs, but the operator reads {} tensor(s)",
                       strategy.inputs.size(), inputs.size());
  }
  for (std::size_t i = 0; i < strategy.inputs.size(); ++i) {
    const auto mistake = mistake_in(strategy.inputs[i], call.tensors[inputs[i]].sizes, devices);
    if (!mistake.empty()) return fmt::format("input {}: {}", i, mistake);
  }
  const auto outputs = divided_outputs(call);
  if (strategy.outputs.size() > outputs.size()) {
    return fmt::format("{} tuples are given for the outputs, but the operator has {}", strategy.outputs.size(),
                       outputs.size());
  }
  for (std::size_t i = 0; i < strategy.outputs.size(); ++i) {
    const auto mistake = mistake_in(strategy.outputs[i], call.outputs[outputs[i]].sizes, devices);
    if (!mistake.empty()) return fmt::format("output {}: {}", i, mistake);
  }
  return {};
}

std::string mistake_on_mesh(const OperatorStrategy& strategy, const OpCall& call, const Rule* rule,
                            std::span<const int> mesh_sizes, std::span<const std::string> mesh_names) {
  const auto shown_mesh = [&] {
    return mesh_names.empty() ? fmt::format("{}", fmt::join(mesh_sizes, "x"))
                              : fmt::format("{} ({})", fmt::join(mesh_sizes, "x"), fmt::join(mesh_names, ", "));
  };
  const auto no_axes = [&](const std::vector<std::int64_t>& tuple) {
    return fmt::format("the mesh {} has no axes for the parts {}", shown_mesh(), described(tuple));
  };
  const Placements whole(mesh_sizes.size());
  for (const auto& tuple : strategy.inputs) {
    if (!placements_with_parts(tuple, mesh_sizes, whole)) return no_axes(tuple);
  }
  for (const auto& tuple : strategy.outputs) {
    if (!placements_with_parts(tuple, mesh_sizes, whole)) return no_axes(tuple);
  }
  if (strategy.inputs.empty() || signatures_of(strategy, call, rule, mesh_sizes, mesh_names)) return {};
  return fmt::format("the operator cannot be divided as {}; what can be divided: {}", to_string(strategy.inputs),
                     rule == nullptr ? "nothing" : rule->supports);
}

}  // namespace lockstep::global
