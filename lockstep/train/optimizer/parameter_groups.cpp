// The parser of optimizer.groups and its match to parameters: the first entry that fits counts, then no_decay. Frozen
// parameters: requires_grad off by name pattern, and their removal from a loaded optimizer state.
#include <lockstep/base/config.h>
#include <lockstep/base/config_reader.h>
#include <lockstep/train/keys/foreign_tables.h>
#include <lockstep/train/keys/parameter_names.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/optimizer/parameter_groups.h>

#include <ATen/core/Tensor.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <set>

namespace lockstep::train {
namespace {

constexpr std::string_view kGroupsKey = "optimizer.groups";
constexpr std::string_view kEntryForm = "{match: [\"fc.*\"], lr_factor: 10, weight_decay: 0}";
constexpr std::string_view kBias = "bias", kWeight = "weight";

/// An entry in its written form.
struct GroupConfig {
  ConfigNode match;
  std::optional<double> lr_factor;
  std::optional<double> lr;
  std::optional<double> weight_decay;
  std::string name;
  PartOptions options;  // of the optimizer `name`
};

void describe(ConfigFields& fields, GroupConfig& c) {
  fields.field("match", c.match, anything(), "names or patterns of parameters");
  fields.field("lr_factor", c.lr_factor, between(0, 1e6), "of the scheduled learning rate; null: 1");
  fields.field("lr", c.lr, between(0, 1e6), "instead of lr_factor: optimizer.lr of these parameters");
  fields.field("weight_decay", c.weight_decay, between(0, 1e6), "null: optimizer.weight_decay");
  fields.field("name", c.name, anything(), "another optimizer, whose keys may follow; empty: optimizer.name");
  c.options.visit(fields);
}

/// The text of an entry's `name`, before its other keys are read.
std::string name_in(const ConfigNode& entry) {
  for (const auto& each : entry.entries) {
    if (each.key == "name" && each.value.kind == ConfigNode::Kind::scalar) return each.value.scalar;
  }
  return "";
}

[[noreturn]] void wrong_entry(const ConfigNode& node, std::string_view path, std::string_view expected) {
  throw Error(ErrorKind::config, "config",
              fmt::format("{}: expected {}, found {}", path, expected, describe_found(node)), node.position);
}

std::vector<std::string> patterns_of(const ConfigNode& entry, const ConfigNode& match, const std::string& path) {
  constexpr std::string_view kExpected = "a pattern of parameter names, or a list of them, e.g. [\"fc.*\"]";
  std::vector<ConfigNode> items = match.items;
  if (match.kind == ConfigNode::Kind::scalar) items = {match};
  if (items.empty()) wrong_entry(match.kind == ConfigNode::Kind::null ? entry : match, path, kExpected);
  std::vector<std::string> patterns;
  for (const auto& item : items) {
    if (item.kind != ConfigNode::Kind::scalar || item.scalar.empty()) wrong_entry(item, path, kExpected);
    patterns.push_back(item.scalar);
  }
  return patterns;
}

GroupRule rule_of(const ConfigNode& entry, const std::string& path, const ResolvedRun& run) {
  const auto& config = run.optimizer;
  if (entry.kind != ConfigNode::Kind::map) wrong_entry(entry, path, kEntryForm);
  GroupConfig read;
  const auto name = name_in(entry);
  if (!name.empty()) {
    try {
      read.options = part_named(run.parts->optimizers, name, path + ".name").options;
    } catch (const Error& error) {
      throw Error(error.kind(), error.where(), error.message(), entry.position);
    }
  }
  read_fields(entry, path, refused_words(), [&](ConfigFields& fields) { describe(fields, read); });
  if (read.lr && read.lr_factor) {
    throw Error(ErrorKind::config, "config", path + ": has lr and lr_factor; give one of them", entry.position);
  }
  if (read.lr && config.base_batch_size) {
    throw Error(ErrorKind::config, "config",
                path + ": has lr, and optimizer.base_batch_size scales optimizer.lr; give lr_factor instead",
                entry.position);
  }
  double factor = read.lr_factor.value_or(1);
  if (read.lr && config.lr > 0) factor = *read.lr / config.lr;
  return {.match = patterns_of(entry, read.match, path + ".match"),
          .lr_factor = factor,
          .weight_decay = read.weight_decay,
          .optimizer = name,
          .options = read.options,
          .position = entry.position};
}

/// Names of layers whose `weight` has several dimensions.
std::set<std::string, std::less<>> layers_of_matrices(const NamedParameters& parameters) {
  std::set<std::string, std::less<>> layers;
  for (const auto& [name, parameter] : parameters) {
    if (name.ends_with(kWeight) && parameter.dim() > 1) layers.insert(name.substr(0, name.size() - kWeight.size()));
  }
  return layers;
}

/// The result of optimizer.no_decay alone.
std::function<bool(std::string_view, const at::Tensor&)> decay_exception(const std::vector<std::string>& no_decay,
                                                                         const NamedParameters& parameters) {
  const auto given = [&](std::string_view which) { return std::ranges::find(no_decay, which) != no_decay.end(); };
  return [norms = given("norms"), biases = given("biases"), matrices = layers_of_matrices(parameters)](
             std::string_view name, const at::Tensor& parameter) {
    if (parameter.dim() > 1) return false;
    if (!name.ends_with(kBias)) return norms;
    return biases || (norms && !matrices.contains(name.substr(0, name.size() - kBias.size())));
  };
}

}  // namespace

void freeze_parameters(const torch::nn::Module& module, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  constexpr std::string_view kKey = "model.freeze";
  const auto parameters = module.named_parameters();
  require_matches(patterns, parameters.keys(), kKey);
  for (const auto& parameter : parameters) {
    if (fits_any(parameter.key(), patterns)) at::Tensor(parameter.value()).requires_grad_(false);
  }
  if (std::ranges::any_of(parameters, [](const auto& each) { return each.value().requires_grad(); })) return;
  fail(ErrorKind::config, "config",
       "{}: all {} parameters of the model are frozen, so there is nothing to train; freeze fewer", kKey,
       parameters.size());
}

NamedTensors without_frozen(NamedTensors optimizer_state, const torch::nn::Module& module) {
  std::set<std::string, std::less<>> frozen;
  for (const auto& parameter : module.named_parameters()) {
    if (!parameter.value().requires_grad()) frozen.insert(parameter.key());
  }
  std::erase_if(optimizer_state, [&](const auto& each) {
    return frozen.contains(std::string_view(each.first).substr(0, each.first.rfind('.')));
  });
  return optimizer_state;
}

std::vector<GroupRule> group_rules(const ResolvedRun& run) {
  const auto& groups = run.optimizer.groups;
  if (groups.kind == ConfigNode::Kind::null) return {};
  if (groups.kind != ConfigNode::Kind::list)
    wrong_entry(groups, kGroupsKey, fmt::format("a list such as [{}]", kEntryForm));
  std::vector<GroupRule> rules;
  for (const auto& entry : groups.items)
    rules.push_back(rule_of(entry, fmt::format("{}[{}]", kGroupsKey, rules.size()), run));
  return rules;
}

OptimizerConfig config_of_group(const ResolvedRun& run, std::size_t entry) {
  const auto rule = group_rules(run).at(entry);
  OptimizerConfig own = run.optimizer;
  own.name = rule.optimizer;
  own.options = rule.options.named(rule.optimizer);
  return own;
}

std::vector<ParameterSettings> settings_of(const ResolvedRun& run, const NamedParameters& parameters) {
  const auto rules = group_rules(run);
  std::vector<std::string> names;
  for (const auto& [name, parameter] : parameters) names.push_back(name);
  for (std::size_t i = 0; i < rules.size(); ++i) {
    require_matches(rules[i].match, names, fmt::format("{}[{}].match", kGroupsKey, i), rules[i].position);
  }
  const auto is_excepted = decay_exception(run.optimizer.no_decay, parameters);
  std::vector<ParameterSettings> settings;
  for (const auto& [name, parameter] : parameters) {
    const auto rule =
        std::ranges::find_if(rules, [&name = name](const GroupRule& each) { return fits_any(name, each.match); });
    const double by_default = is_excepted(name, parameter) ? 0 : run.optimizer.weight_decay;
    if (rule == rules.end()) {
      settings.push_back({1, by_default, std::nullopt});
      continue;
    }
    settings.push_back({rule->lr_factor, rule->weight_decay.value_or(by_default), std::nullopt});
    if (!rule->optimizer.empty()) settings.back().optimizer = static_cast<std::size_t>(rule - rules.begin());
  }
  return settings;
}

ResolvedRun without_idle_patterns(ResolvedRun run, const NamedParameters& parameters) {
  const auto is_idle = [&](const ConfigNode& pattern) {
    return std::ranges::none_of(parameters, [&](const auto& each) { return fits_any(each.first, {pattern.scalar}); });
  };
  const auto has_none_left = [&](ConfigNode& entry) {
    for (auto& [key, value] : entry.entries) {
      if (key != "match") continue;
      if (value.kind == ConfigNode::Kind::scalar) return is_idle(value);
      std::erase_if(value.items, is_idle);
      return value.items.empty();
    }
    return false;
  };
  std::erase_if(run.optimizer.groups.items, has_none_left);
  return run;
}

std::string describe_groups(const ResolvedRun& run, const NamedParameters& parameters) {
  struct Line {
    ParameterSettings settings;
    std::size_t parameters = 0;
    std::int64_t numbers = 0;
    std::string first;
  };
  const auto settings = settings_of(run, parameters);
  std::vector<Line> lines;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    auto line = std::ranges::find(lines, settings[i], &Line::settings);
    if (line == lines.end()) line = lines.insert(lines.end(), {settings[i], 0, 0, parameters[i].first});
    ++line->parameters;
    line->numbers += parameters[i].second.numel();
  }
  if (lines.size() < 2) return "";
  std::string text;
  for (const auto& line : lines) {
    const auto& entry = line.settings.optimizer;
    text += fmt::format("# {}learning rate x {}, weight decay {}: {} parameter(s) with {} numbers, {}{}\n",
                        entry ? config_of_group(run, *entry).name + ", " : "", line.settings.lr_factor,
                        line.settings.weight_decay, line.parameters, line.numbers, line.first,
                        line.parameters > 1 ? ", ..." : "");
  }
  return text;
}

}  // namespace lockstep::train
