// The making of a plan. Order: result shapes, placements by rule or strategy, local form, and whether it is direct. And
// the counters of calls that gather: the bytes of a choice without divided inputs, and a list by bytes.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/operator_scope.h>
#include <lockstep/global/dispatch/planner.h>
#include <lockstep/global/local/local_call.h>
#include <lockstep/global/placement.h>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>

namespace lockstep::global {
namespace {

std::atomic<int> strictness_now{-1};

Strictness strictness_of_environment() {
  constexpr std::string_view kName = "LOCKSTEP_GLOBAL_STRICT";
  const auto value = find(current_environment(), kName);
  if (!value || *value == "0") return Strictness::warn;
  if (*value == "1") return Strictness::refuse;
  if (*value == "list") return Strictness::list;
  fail(ErrorKind::environment, "environment",
       "{}='{}' is none of 0 (operators without a sharding rule gather, with a warning), 1 (they are errors) and list "
       "(each way that gathers is logged); set it to one of these, or unset it",
       kName, *value);
}

/// The current placements of the inputs; ordinary scalar tensors and undefined tensors count as replicated.
std::vector<Placements> placements_of(const std::vector<TensorArgument>& inputs, const MeshState& mesh) {
  std::vector<Placements> placements;
  for (const auto& each : inputs) {
    placements.push_back(is_global(each.tensor) ? state_of(each.tensor).sharding->placements
                                                : Placements(mesh.sizes().size()));
  }
  return placements;
}

/// The required placements of the outputs: tensors written in place keep their placements, unless nothing was ever
/// written to them.
std::vector<std::optional<Placements>> wanted_outputs(const OpInfo& info, const torch::jit::Stack& arguments,
                                                      std::size_t outputs) {
  std::vector<std::optional<Placements>> wanted(outputs);
  if (info.reshapes_self) return wanted;
  for (std::size_t i = 0; i < std::min(outputs, info.returned_argument.size()); ++i) {
    if (!info.returned_argument[i] || !arguments[*info.returned_argument[i]].isTensor()) continue;
    const auto& own = arguments[*info.returned_argument[i]].toTensor();
    if (is_global(own) && own.numel() > 0 && !state_of(own).unwritten) wanted[i] = state_of(own).sharding->placements;
  }
  return wanted;
}

/// The placements of the inputs as text: "[Shard(0)], a number".
std::string said_placements(const std::vector<TensorArgument>& inputs) {
  std::vector<std::string> all;
  for (const auto& each : inputs) {
    if (!each.tensor.defined()) continue;
    all.push_back(is_global(each.tensor) ? to_string(state_of(each.tensor).sharding->placements) : "a number");
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

/// Logs a missing rule once for each operator and input placements.
void tell_of_missing_rule(const OpInfo& info, const std::vector<TensorArgument>& inputs) {
  const bool costs = std::any_of(inputs.begin(), inputs.end(), [](const TensorArgument& each) {
    return is_global(each.tensor) && !state_of(each.tensor).sharding->replicated;
  });
  if (!costs) return;
  const auto lying = said_placements(inputs);
  if (strictness() == Strictness::list) return;  // note_gathering() logs it
  if (strictness() == Strictness::refuse) {
    fail(ErrorKind::unsupported, "global view",
         "{} of {} has no sharding rule and would gather its inputs on every rank, which strict mode forbids; "
         "redistribute them to Replicate() first, or turn strict mode off",
         info.shown, lying);
  }
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  if (told.insert(fmt::format("{} of {}", info.shown, lying)).second) {
    log_warning("{} of {} has no sharding rule: its inputs are gathered on every rank (reported once)", info.shown,
                lying);
  }
}

/// Makes the plan count its calls if they gather.
void note_gathering(Plan& plan, const OpInfo& info, const std::vector<TensorArgument>& inputs, const Choice& choice,
                    MeshState& mesh) {
  const Rule* rule = find_rule(info.name);
  if (rule != nullptr && rule->needs_all) return;
  plan.gathered_bytes = gathered_bytes(choice, plan.call, placements_of(inputs, mesh), mesh.sizes());
  if (plan.gathered_bytes == 0) return;
  bool is_new = false;
  plan.gathers =
      &mesh.gathered().way(fmt::format("{} of {}", info.shown, said_placements(inputs)), rule != nullptr, is_new);
  if (is_new && strictness() == Strictness::list) {
    log_info("LOCKSTEP_GLOBAL_STRICT=list: {} {}: its inputs are gathered on every rank", plan.gathers->call,
             rule == nullptr ? "has no sharding rule" : "has no cheaper way in its sharding rule");
  }
}

/// Marks the plan as direct if its requirements are met. `plan` must not redistribute anything.
void make_direct_if_possible(Plan& plan, const OpInfo& info, const torch::jit::Stack& arguments,
                             const std::vector<TensorArgument>& inputs) {
  // A local form that overwrites may return a new tensor.
  if (info.has_out || info.reshapes_self || !info.written_beside.empty() || (plan.overwrites && plan.form)) return;
  if (info.written_self && plan.outputs.at(0).sharding != plan.inputs.at(0)) return;
  for (const auto& each : inputs) {
    if (!arguments[each.position].isTensor()) return;
    if (is_global(each.tensor)) plan.tensor_positions.push_back(each.position);
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].isDevice() && arguments[i].toDevice().type() == kDeviceType) plan.device_positions.push_back(i);
  }
  plan.direct = !plan.tensor_positions.empty();
}

/// Runs the operator on small tensors with the same dtypes (empty where the inputs are), so that libtorch's own
/// argument errors are thrown. It does not depend on the rank, so all ranks get the same error.
void try_on_little(const c10::OperatorHandle& op, const OpInfo& info, torch::jit::Stack arguments, c10::Device device) {
  std::vector<at::Tensor> little;
  for (const auto& each : input_tensors(info, arguments)) {
    auto sizes = each.tensor.defined() ? each.tensor.sizes().vec() : std::vector<std::int64_t>{};
    for (auto& size : sizes) size = std::min<std::int64_t>(size, 2);
    little.push_back(each.tensor.defined() ? at::zeros(sizes, each.tensor.options().device(device)) : at::Tensor());
  }
  replace_inputs(info, arguments, little);
  without_out(op, info, arguments, device).callBoxed(arguments);
}

/// choose(), among the signatures that the strategy allows.
Choice choose_as(const OperatorStrategy* strategy, const Rule* rule, const OpCall& call,
                 const std::vector<Placements>& now, const std::vector<std::optional<Placements>>& wanted,
                 const MeshState& mesh) {
  const auto given = strategy != nullptr && rule != nullptr
                         ? signatures_of(*strategy, call, rule, mesh.sizes(), mesh.names())
                         : std::nullopt;
  if (!given) return choose(rule, call, now, wanted, mesh.sizes());
  std::vector<std::vector<Signature>> candidates;
  for (const auto& each : *given) candidates.push_back({each});
  std::vector<const std::vector<Signature>*> by_axis;
  for (const auto& each : candidates) by_axis.push_back(&each);
  return choose_among(by_axis, call, now, wanted, mesh.sizes());
}

struct Decision {
  std::optional<std::vector<LogicalShape>> shapes;
  Choice choice;
};

/// Also stores the outputs in `call`.
Decision decide(const c10::OperatorHandle& op, const OpInfo& info, const torch::jit::Stack& arguments,
                const std::vector<TensorArgument>& inputs, const MeshState& mesh, const OperatorStrategy* strategy,
                OpCall& call) {
  const Rule* rule = find_rule(info.name);
  const auto now = placements_of(inputs, mesh);
  try {
    auto shapes = result_shapes(op, info, arguments, call, rule);
    if (shapes.known) {
      for (const auto& shape : *shapes.known) call.outputs.push_back(tensor_info(shape));
    }
    if (!shapes.refused && (!rule || (!shapes.known && !rule->needs_all))) tell_of_missing_rule(info, inputs);
    const auto wanted = wanted_outputs(info, arguments, call.outputs.size());
    auto choice = choose_as(strategy, shapes.known ? rule : nullptr, call, now, wanted, mesh);
    return {.shapes = std::move(shapes.known), .choice = std::move(choice)};
  } catch (const std::out_of_range&) {  // the rule does not support such arguments
    call.outputs.clear();
    return {.shapes = std::nullopt, .choice = choose(nullptr, call, now, {}, mesh.sizes())};
  }
}

}  // namespace

Strictness strictness() {
  int now = strictness_now.load();
  if (now < 0) strictness_now = now = static_cast<int>(strictness_of_environment());
  return static_cast<Strictness>(now);
}

void set_strict(bool strict) { strictness_now = static_cast<int>(strict ? Strictness::refuse : Strictness::warn); }

Plan make_plan(const c10::OperatorHandle& op, const OpInfo& info, const torch::jit::Stack& arguments,
               const std::vector<TensorArgument>& inputs, MeshState& mesh, const OperatorStrategy* strategy) {
  Plan plan;
  plan.call = read_call(op, info, arguments);
  const auto [shapes, choice] = decide(op, info, arguments, inputs, mesh, strategy, plan.call);
  note_gathering(plan, info, inputs, choice, mesh);
  bool plain = shapes.has_value();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    plan.inputs.push_back(is_global(inputs[i].tensor) ? mesh.intern(choice.inputs[i]) : nullptr);
    if (plan.inputs[i] && plan.inputs[i] != state_of(inputs[i].tensor).sharding) plain = false;
  }
  plan.overwrites = choice.unread_self;
  for (std::size_t i = 0; shapes && i < shapes->size(); ++i) {
    plan.outputs.push_back({.shape = (*shapes)[i], .sharding = mesh.intern(choice.outputs[i])});
  }
  if (shapes && strategy != nullptr && !strategy->outputs.empty() && !info.written_self && !info.has_out) {
    for (const auto& each : outputs_of(*strategy, plan.call, choice.outputs, mesh.sizes())) {
      plan.afterwards.push_back(mesh.intern(each));
    }
    plain = false;
  }
  // Local forms need the shapes. Without shapes the operator itself is called, so that libtorch reports the invalid
  // arguments.
  if (shapes || info.name == "set") plan.form = find_local_form(info.name);
  if (plan.form && replaces_operator(plan.form)) try_on_little(op, info, arguments, mesh.device());
  if (plain) make_direct_if_possible(plan, info, arguments, inputs);
  if (mesh.trace()) add_to_trace(plan, op, info, inputs);
  return plan;
}

GatheredWay& GatheredWays::way(const std::string& call, bool has_rule, bool& is_new) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(ways_.begin(), ways_.end(), [&](const auto& each) { return each->call == call; });
  is_new = found == ways_.end();
  if (!is_new) return **found;
  ways_.push_back(std::make_unique<GatheredWay>(GatheredWay{.call = call, .has_rule = has_rule}));
  return *ways_.back();
}

std::vector<GatheredWay> GatheredWays::called() const {
  const std::lock_guard lock(mutex_);
  std::vector<GatheredWay> called;
  for (const auto& each : ways_) {
    if (each->calls > 0) called.push_back(*each);
  }
  std::stable_sort(called.begin(), called.end(),
                   [](const GatheredWay& a, const GatheredWay& b) { return a.bytes > b.bytes; });
  return called;
}

double gathered_bytes(const Choice& choice, const OpCall& call, const std::vector<Placements>& now,
                      std::span<const int> mesh_sizes) {
  double bytes = 0;
  const auto divided = [](const std::vector<Placements>& all, std::size_t axis) {
    return std::any_of(all.begin(), all.end(), [&](const Placements& each) { return each[axis].is_shard(); });
  };
  for (std::size_t axis = 0; axis < mesh_sizes.size(); ++axis) {
    if (mesh_sizes[axis] < 2 || divided(choice.inputs, axis) || divided(choice.outputs, axis)) continue;
    for (std::size_t i = 0; i < call.tensors.size(); ++i) {
      if (!call.tensors[i].defined || !now[i][axis].is_shard()) continue;
      bytes += traffic(now[i][axis], Replicate(), call.tensors[i].bytes(), mesh_sizes[axis]);
    }
  }
  return bytes;
}

std::vector<std::string> texts_of(const std::vector<GatheredWay>& ways) {
  std::vector<std::string> texts;
  for (const auto& each : ways) {
    texts.push_back(fmt::format("{}: {} call{}, {:.3g} MB{}", each.call, each.calls, each.calls == 1 ? "" : "s",
                                each.bytes / 1e6, each.has_rule ? "" : " (no sharding rule)"));
  }
  return texts;
}

}  // namespace lockstep::global
