// The resolution of strategy keys: weightless modules such as ReLU become names of operators in a traced step.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/global/distribute_module.h>
#include <lockstep/global/module_of_operator.h>
#include <lockstep/plan/given_strategies.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/modes/strategies.h>
#include <lockstep/train/modes/strategy_names.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <set>

namespace lockstep::train {
namespace {

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

}  // namespace

ModelFacts facts_of(const RunConfig& config, const Program& program) {
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

}  // namespace lockstep::train
