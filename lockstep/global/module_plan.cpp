// The plan of a module's parameters: the match of their names with patterns of * and ?, where the first pattern that
// matches decides; and a parser of strategies, such as ((2, 1), (4, 1)), and their translation to placements of weights
// on mesh axes.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/operator_strategy.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <optional>

namespace lockstep {

bool fits(std::string_view name, std::string_view pattern) {
  std::size_t at = 0;
  std::size_t in_pattern = 0;
  std::size_t star = std::string_view::npos;  // the last `*`, and how much of `name` it has matched so far
  std::size_t after_star = 0;
  while (at < name.size()) {
    if (in_pattern < pattern.size() && (pattern[in_pattern] == '?' || pattern[in_pattern] == name[at]) &&
        pattern[in_pattern] != '*') {
      ++at;
      ++in_pattern;
    } else if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      star = in_pattern++;
      after_star = at;
    } else if (star != std::string_view::npos) {
      in_pattern = star + 1;
      at = ++after_star;
    } else {
      return false;
    }
  }
  return std::all_of(pattern.begin() + static_cast<std::ptrdiff_t>(in_pattern), pattern.end(),
                     [](char c) { return c == '*'; });
}

const Placements* find_placements(const ModulePlan& plan, std::string_view name) {
  const auto found = std::find_if(plan.begin(), plan.end(), [&](const auto& each) { return fits(name, each.first); });
  return found == plan.end() ? nullptr : &found->second;
}

void check_patterns(const ModulePlan& plan, const std::vector<std::string>& names) {
  for (const auto& [pattern, placements] : plan) {
    if (std::none_of(names.begin(), names.end(),
                     [&, &fitting = pattern](const std::string& name) { return fits(name, fitting); })) {
      fail(ErrorKind::config, "distribute_module", "no parameter or buffer of the module fits \"{}\"{}", pattern,
           did_you_mean(pattern, names));
    }
  }
}

namespace {

[[noreturn]] void unreadable(std::string_view text) {
  fail(ErrorKind::invalid_argument, "strategy",
       "\"{}\" is no strategy; write the number of parts of each dimension, for the input and the weight, such as ((2, "
       "1), (4, 1))",
       text);
}

/// The axes that shard the three relevant dimensions of a layer; nullopt: not sharded.
struct LayerAxes {
  std::optional<std::size_t> batch;
  std::optional<std::size_t> inputs;
  std::optional<std::size_t> outputs;
};

class Axes {
 public:
  Axes(std::span<const int> sizes, std::span<const std::string> names)
      : sizes_(sizes), names_(names), taken_(sizes.size()) {}

  std::optional<std::size_t> take(const std::string& layer, std::string_view what, std::int64_t parts,
                                  std::string_view preferred) {
    if (parts == 1) return std::nullopt;
    std::optional<std::size_t> found;
    for (std::size_t axis = 0; axis < sizes_.size(); ++axis) {
      if (taken_[axis] || sizes_[axis] != parts) continue;
      if (!found || names_[axis] == preferred) found = axis;
    }
    if (!found) {
      fail(ErrorKind::config, "strategy",
           "{}: the {} are in {} parts, but the mesh {} ({}) has no axis of {} ranks left for them", layer, what, parts,
           fmt::join(sizes_, "x"), fmt::join(names_, ", "), parts);
    }
    taken_[*found] = true;
    return found;
  }

 private:
  std::span<const int> sizes_;
  std::span<const std::string> names_;
  std::vector<bool> taken_;
};

void require_whole(const std::string& layer, const std::vector<std::int64_t>& tuple, std::vector<std::size_t> but) {
  for (std::size_t dim = 0; dim < tuple.size(); ++dim) {
    if (tuple[dim] != 1 && std::find(but.begin(), but.end(), dim) == but.end()) {
      fail(ErrorKind::config, "strategy",
           "{}: dimension {} of ({}) cannot be divided; only batch, inputs and outputs can", layer, dim,
           fmt::join(tuple, ", "));
    }
  }
}

LayerAxes axes_of(const std::string& layer, const Strategy& strategy, std::span<const int> sizes,
                  std::span<const std::string> names) {
  if (strategy.size() != 2 || strategy[0].size() < 2 || strategy[1].size() < 2) {
    fail(ErrorKind::config, "strategy",
         "{}: two tuples of two numbers or more are needed, for the input and the weight", layer);
  }
  const auto& input = strategy[0];
  const auto& weight = strategy[1];
  const std::size_t features = weight.size() > 2 ? 1 : input.size() - 1;
  require_whole(layer, input, {0, features});
  require_whole(layer, weight, {0, 1});
  if (input[features] != weight[1]) {
    fail(ErrorKind::config, "strategy",
         "{}: what the layer sums over is in {} parts in its input and in {} in its weight; they must be equal", layer,
         input[features], weight[1]);
  }
  Axes axes(sizes, names);
  LayerAxes found;
  found.batch = axes.take(layer, "pictures of a batch", input[0], "data");
  found.inputs = axes.take(layer, "inputs", weight[1], "model");
  found.outputs = axes.take(layer, "outputs", weight[0], "model");
  return found;
}

}  // namespace

Strategy parse_strategy(std::string_view text) {
  Strategy strategy;
  std::string number;
  int depth = 0;
  const auto end_number = [&] {
    if (number.empty()) return;
    const auto parts = parse_integer(number);
    if (!parts || *parts < 1 || depth != 2) unreadable(text);
    strategy.back().push_back(*parts);
    number.clear();
  };
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c))) continue;
    if (c == '(' || c == '[') {
      if (++depth == 2) strategy.emplace_back();
      if (depth > 2) unreadable(text);
    } else if (c == ')' || c == ']') {
      end_number();
      if (--depth < 0) unreadable(text);
    } else if (c == ',') {
      end_number();
    } else {
      number += c;
    }
  }
  if (depth != 0 || !number.empty() || strategy.empty()) unreadable(text);
  return strategy;
}

ModulePlan plan_of_strategies(std::span<const std::pair<std::string, Strategy>> strategies,
                              std::span<const int> mesh_sizes, std::span<const std::string> mesh_names,
                              std::span<const std::string> names) {
  ModulePlan plan;
  for (const auto& [layer, strategy] : strategies) {
    const auto axes = axes_of(layer, strategy, mesh_sizes, mesh_names);
    if (std::find(names.begin(), names.end(), layer + ".weight") == names.end()) {
      fail(ErrorKind::config, "strategy", "the model has no {}.weight{}", layer,
           did_you_mean(layer + ".weight", names));
    }
    Placements weight(mesh_sizes.size());
    Placements bias(mesh_sizes.size());
    if (axes.inputs) weight[*axes.inputs] = Shard(1);
    if (axes.outputs) weight[*axes.outputs] = bias[*axes.outputs] = Shard(0);
    plan.emplace_back(layer + ".weight", weight);
    if (std::find(names.begin(), names.end(), layer + ".bias") != names.end()) plan.emplace_back(layer + ".bias", bias);
  }
  return plan;
}

}  // namespace lockstep
