// The compilation of a graph.
#include <lockstep/plan/cost/cost_model.h>
#include <lockstep/plan/cost/program.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

namespace lockstep::plan {
namespace {

std::string text_of(const TensorInfo& info) {
  if (!info.defined) return "-";
  return fmt::format("[{}]({}){}{}{}{}", fmt::join(info.sizes, ","), fmt::join(info.strides, ","),
                     info.offset == 0 ? "" : fmt::format("+{}", info.offset), info.element_bytes,
                     info.floating ? "f" : "i", info.ordinary ? "o" : "");
}

struct ArgumentText {
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(global::TensorAt at) const { return fmt::format("@{}", at.index); }
  std::string operator()(global::TensorsAt at) const { return fmt::format("@{}+{}", at.first, at.count); }
  std::string operator()(global::AnyNumber) const { return "number"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(const global::Sizes& sizes) const { return fmt::format("[{}]", fmt::join(sizes, ",")); }
  std::string operator()(const std::string& text) const { return '"' + text + '"'; }
};

class Names {
 public:
  explicit Names(std::vector<std::string>& names) : names_(names) {}
  std::size_t index(const std::string& name) {
    const auto [found, is_new] = known_.emplace(name, names_.size());
    if (is_new) names_.push_back(name);
    return found->second;
  }

 private:
  std::vector<std::string>& names_;
  std::unordered_map<std::string, std::size_t> known_;
};

/// Links gradients and optimizer state to their parameters by name.
void link_parameters(Program& program) {
  std::unordered_map<std::string, std::size_t> by_name;
  for (const auto parameter : program.parameters) by_name.emplace(program.values[parameter].name, parameter);
  for (auto& value : program.values) {
    if (value.kind != ValueKind::gradient && value.kind != ValueKind::optimizer_state) continue;
    const auto found = by_name.find(value.name);
    if (found != by_name.end()) value.parameter = found->second;
  }
}

std::size_t root_of(const Program& program, std::size_t value) {
  while (program.values[value].view_of) value = *program.values[value].view_of;
  return value;
}

/// Counts tensors in memory: one that outlives the phase in which it was made exists once for each layer that it
/// represents.
void count_kept(Program& program, const std::vector<Phase>& made_in, const std::vector<Phase>& last_read_in,
                const std::vector<double>& times) {
  for (std::size_t i = 0; i < program.values.size(); ++i) {
    if (made_in[i] != last_read_in[i]) program.values[i].kept_times = times[i];
  }
}

void find_ends(Program& program) {
  const std::size_t count = program.values.size();
  std::vector<std::size_t> last_use(count, kNoValue);
  std::vector<std::size_t> last_write(count, kNoValue);
  std::vector<Phase> made_in(count, Phase::forward);
  std::vector<Phase> last_in(count, Phase::forward);
  std::vector<double> times(count, 1);
  std::vector<bool> made(count);
  for (std::size_t at = 0; at < program.steps.size(); ++at) {
    const auto& step = program.steps[at];
    const auto use = [&](std::size_t value) {
      if (value == kNoValue) return;
      const auto root = root_of(program, value);
      last_use[root] = at;
      last_in[root] = step.phase;
    };
    for (const auto value : step.inputs) use(value);
    for (const auto value : step.outputs) {
      if (value == kNoValue) continue;
      use(value);
      if (!made[value]) {
        made[value] = true;
        made_in[value] = step.phase;
        times[value] = step.times;
      }
      if (step.phase == Phase::backward) last_write[value] = at;
    }
  }
  count_kept(program, made_in, last_in, times);
  for (std::size_t value = 0; value < count; ++value) {
    const auto& item = program.values[value];
    const bool stays = item.kind == ValueKind::parameter || item.kind == ValueKind::buffer ||
                       item.kind == ValueKind::optimizer_state || item.parameter;
    if (!stays && last_use[value] != kNoValue && !item.view_of) program.steps[last_use[value]].frees.push_back(value);
    if (item.kind == ValueKind::gradient && item.parameter && last_write[value] != kNoValue) {
      program.steps[last_write[value]].finishes_gradients.push_back(value);
    }
  }
}

/// Equal calls with different strategies are different operators.
std::string strategy_text(const Node& node) {
  if (!node.strategy) return {};
  return global::to_string(node.strategy->inputs) + global::to_string(node.strategy->outputs);
}

}  // namespace

std::string fingerprint(const OpCall& call) {
  std::string text = call.name + "." + call.overload + (call.in_place ? "_(" : "(");
  for (const auto& [name, value] : call.arguments) text += name + "=" + std::visit(ArgumentText(), value) + " ";
  for (const auto& tensor : call.tensors) text += text_of(tensor);
  text += "->";
  for (const auto& output : call.outputs) text += text_of(output);
  return text;
}

Program compile(const Graph& graph, const std::vector<double>& times) {
  Program program;
  Names modules(program.modules);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const auto& value = graph.values[i];
    program.values.push_back({.info = value.info, .kind = value.kind, .name = value.name});
    if (value.kind == ValueKind::parameter) {
      program.values.back().module = modules.index(std::string(owner_of(value.name)));
      program.parameters.push_back(i);
    }
    if (value.kind == ValueKind::buffer) program.buffers.push_back(i);
    if (value.kind == ValueKind::input) program.inputs.push_back(i);
  }
  link_parameters(program);
  std::unordered_map<std::string, std::uint32_t> operators;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.nodes[i];
    const auto [found, is_new] = operators.emplace(fingerprint(node.call) + strategy_text(node),
                                                   static_cast<std::uint32_t>(program.operators.size()));
    if (is_new) {
      program.operators.push_back(
          {.call = node.call,
           .rule = global::find_rule(node.call.name),
           .view = is_view(node.call),
           .makes_unwritten = node.call.name.starts_with("empty") || node.call.name.starts_with("new_empty"),
           .strategy = node.strategy});
    }
    program.steps.push_back({.op = found->second,
                             .inputs = node.inputs,
                             .outputs = node.outputs,
                             .module = modules.index(node.module),
                             .phase = node.phase,
                             .times = times.empty() ? 1 : times[i]});
    if (!program.operators[found->second].view || node.inputs.empty() || node.inputs[0] == kNoValue) continue;
    for (const auto output : node.outputs) {
      if (output != kNoValue && output != node.inputs[0] && !program.values[output].view_of) {
        program.values[output].view_of = node.inputs[0];
      }
    }
  }
  find_ends(program);
  return program;
}

}  // namespace lockstep::plan
