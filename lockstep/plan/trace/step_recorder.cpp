// The recorder of operators on planning tensors, and the errors for operators that need values of tensors.
#include <lockstep/base/error.h>
#include <lockstep/global/dispatch/kernels.h>
#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/mesh_state.h>
#include <lockstep/global/tensor_state.h>
#include <lockstep/plan/graph.h>
#include <lockstep/plan/trace/step_recorder.h>

#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <algorithm>

namespace lockstep::plan {
namespace {

/// Error(unsupported) for an operator that reads a value of a tensor (`item()`); names it and an alternative.
[[noreturn]] void refuse_to_tell_numbers(const global::OpInfo& info) {
  fail(
      ErrorKind::unsupported, "plan",
      "{} takes a number out of a tensor (item(), a condition, printing), but a step is planned with tensors that have "
      "shapes and no numbers; let the step compute without it (torch::where instead of `if`), or do it outside the "
      "step, or use parallel.mode semi_auto, which plans nothing",
      info.shown);
}

/// Error(unsupported) for an operator whose result shape is unknown or depends on values.
[[noreturn]] void refuse_unknown_shape(const global::OpInfo& info) {
  fail(ErrorKind::unsupported, "plan",
       "{} gives a tensor whose shape cannot be determined from the shapes of its inputs, and a step is planned with "
       "nothing else; use an operator that keeps shapes (torch::where instead of a selection by mask), or "
       "parallel.mode semi_auto, which plans nothing",
       info.shown);
}

/// Handles a copy of an ordinary tensor to a tensor without memory: nothing is copied; pushes the destination and
/// returns true. Error(unsupported) for a copy in the other direction. Returns false for other copies, which are
/// ordinary operators.
bool copy_of_ordinary(const global::OpInfo& info, const torch::jit::Stack& arguments, torch::jit::Stack& results) {
  const auto& first = arguments[0].toTensor();
  if (info.name == "_to_copy") {  // self, dtype, layout, device, ...
    const bool leaves = arguments[3].isDevice() && arguments[3].toDevice().type() != global::kDeviceType;
    if (leaves && global::is_global(first)) refuse_to_tell_numbers(info);
    return false;
  }
  const bool into = global::is_global(first);
  if (into == global::is_global(arguments[1].toTensor())) return false;
  if (!into) refuse_to_tell_numbers(info);
  results.push_back(arguments[0]);
  return true;
}

using global::is_global;
using global::state_of;

/// equal(): whether both are the same tensor. Layers call it to select a faster implementation (attention of a sequence
/// to itself); different tensors without values count as different.
bool is_one_tensor(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_same(b)) return true;
  return is_global(a) && is_global(b) && a.is_alias_of(b) && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.storage_offset() == b.storage_offset();
}

bool gives_tensors(const c10::Argument& result) {
  const auto& type = *result.type();
  return type.kind() == c10::TypeKind::TensorType || type.isSubtypeOf(*c10::ListType::ofTensors());
}

/// Marks results that the caller did not request as undefined.
void leave_out_unwanted(OpCall& call) {
  const auto wanted = call.integers("output_mask");
  for (std::size_t i = 0; i < std::min(wanted.size(), call.outputs.size()); ++i)
    call.outputs[i].defined = wanted[i] != 0;
}

std::shared_ptr<global::MeshState> mesh_of(const std::vector<global::TensorArgument>& inputs) {
  for (const auto& each : inputs) {
    if (is_global(each.tensor)) return state_of(each.tensor).mesh;
  }
  return global::ambient_mesh();
}

}  // namespace

std::size_t StepRecorder::add(Value value, Origin origin) {
  graph_.values.push_back(std::move(value));
  origins_.push_back(std::move(origin));
  return graph_.values.size() - 1;
}

std::size_t StepRecorder::name(const at::Tensor& tensor, ValueKind kind, std::string name, std::string module) {
  const bool of_parameters = kind == ValueKind::parameter || kind == ValueKind::buffer;
  const auto value = add({.info = global::tensor_info(tensor), .kind = kind, .name = std::move(name)},
                         {.module = std::move(module), .of_parameters = of_parameters, .nobodys = !of_parameters});
  state_of(tensor).traced = value;
  return value;
}

std::size_t StepRecorder::value_of(const at::Tensor& tensor) {
  if (!is_global(tensor)) return kNoValue;
  const auto known = state_of(tensor).traced;
  if (known != global::kNotTraced) return known;
  return name(tensor, phase_ == Phase::optimizer ? ValueKind::optimizer_state : ValueKind::buffer, {});
}

std::string StepRecorder::module_of_sequence(std::uint64_t number) const {
  const auto found = by_sequence_.find(number);
  return found == by_sequence_.end() ? std::string() : found->second;
}

const global::Plan& StepRecorder::plan_of(const c10::OperatorHandle& op, const global::OpInfo& info,
                                          global::KeyView key, const torch::jit::Stack& arguments,
                                          global::MeshState& mesh) {
  if (const auto* known = mesh.plans().find(key)) return *known;
  const auto& returns = op.schema().returns();
  if (!std::all_of(returns.begin(), returns.end(), gives_tensors)) refuse_to_tell_numbers(info);
  global::Plan plan;
  plan.call = global::read_call(op, info, arguments);
  auto shapes = global::result_shapes(op, info, arguments, plan.call, global::find_rule(info.name)).known;
  if (!shapes || (shapes->empty() && !returns.empty())) refuse_unknown_shape(info);
  for (auto& shape : *shapes) {
    plan.call.outputs.push_back(global::tensor_info(shape));
    plan.outputs.push_back({.shape = std::move(shape), .sharding = mesh.replicated()});
  }
  leave_out_unwanted(plan.call);
  return *mesh.plans().keep(key, std::move(plan));
}

at::Tensor StepRecorder::made(const std::shared_ptr<global::MeshState>& mesh, const global::Plan& plan, Node* node) {
  const std::size_t index = next_output_++;
  const auto& info = plan.call.outputs.at(index);
  if (node) node->outputs.push_back(info.defined ? add({.info = info, .name = {}}, {}) : kNoValue);
  if (!info.defined) return {};
  return global::make_without_memory({.mesh = mesh,
                                      .sharding = mesh->replicated(),
                                      .local = {},
                                      .traced = node ? node->outputs.back() : global::kNotTraced},
                                     plan.outputs[index].shape);
}

void StepRecorder::written(const global::OpInfo& info, const at::Tensor& own, const global::Plan& plan, Node* node) {
  const std::size_t index = next_output_++;
  const auto& shape = plan.outputs.at(index).shape;
  const bool other_shape = info.reshapes_self || own.sizes() != c10::IntArrayRef(shape.sizes);
  if (other_shape) {
    own.unsafeGetTensorImpl()->set_sizes_and_strides(shape.sizes, shape.strides);
    own.unsafeGetTensorImpl()->set_storage_offset(shape.offset);
    state_of(own).traced = global::kNotTraced;
  }
  if (!node) return;
  auto& value = state_of(own).traced;
  if (value == global::kNotTraced) value = add({.info = plan.call.outputs[index], .name = {}}, {});
  node->outputs.push_back(value);
  if (other_shape) node->call.in_place = false;
}

std::vector<const StepRecorder::Origin*> StepRecorder::telling_origins(const Node& node) const {
  std::vector<const Origin*> origins;
  for (const std::size_t value : node.inputs) {
    if (value != kNoValue && !origins_[value].nobodys) origins.push_back(&origins_[value]);
  }
  return origins;
}

std::string StepRecorder::module_of_call(const Node& node) const {
  if (node.phase == Phase::backward && !entered_.empty()) return entered_;
  auto origins = telling_origins(node);
  if (origins.empty()) return graph_.nodes.empty() ? std::string() : graph_.nodes.back().module;
  const auto own = std::find_if(origins.begin(), origins.end(), [](const auto* each) { return each->of_parameters; });
  if (own != origins.end()) return (*own)->module;
  std::stable_sort(origins.begin(), origins.end(), [](const auto* a, const auto* b) { return a->node < b->node; });
  std::vector<std::string> modules;
  for (const auto* each : origins) modules.push_back(each->module);
  return joining_module(modules, containers_);
}

void StepRecorder::append(Node node) {
  node.module = module_of_call(node);
  const bool nobodys = telling_origins(node).empty();
  const auto of_parameters = [&](std::size_t value) { return value == kNoValue || origins_[value].of_parameters; };
  const Origin origin{.module = node.module,
                      .of_parameters = node.phase == Phase::forward && !nobodys &&
                                       std::all_of(node.inputs.begin(), node.inputs.end(), of_parameters),
                      .nobodys = nobodys,
                      .node = graph_.nodes.size() + 1};
  for (const std::size_t value : node.outputs) {
    if (value != kNoValue && graph_.values[value].kind == ValueKind::activation) origins_[value] = origin;
  }
  // Autograd assigned the sequence number of the operator's node just before it called the operator; nodes of inner
  // calls get later numbers.
  if (node.phase == Phase::forward) by_sequence_.emplace(at::sequence_number::peek() - 1, node.module);
  graph_.nodes.push_back(std::move(node));
}

void StepRecorder::record(const c10::OperatorHandle& op, const global::OpInfo& info, global::KeyView key,
                          const torch::jit::Stack& arguments, torch::jit::Stack& results) {
  if (info.may_cross && copy_of_ordinary(info, arguments, results)) return;
  const auto inputs = global::input_tensors(info, arguments);
  if (info.name == "equal") {
    results.emplace_back(is_one_tensor(inputs[0].tensor, inputs[1].tensor));
    return;
  }
  const auto mesh = phase_ ? global::mesh_of_call(op, info, inputs) : mesh_of(inputs);
  const auto& plan = plan_of(op, info, key, arguments, *mesh);
  std::optional<Node> node;
  if (phase_) {
    node.emplace(Node{.call = plan.call, .inputs = {}, .outputs = {}, .module = {}, .phase = *phase_});
    for (const auto& each : inputs) node->inputs.push_back(value_of(each.tensor));
  }
  next_output_ = 0;
  const auto& returns = op.schema().returns();
  for (std::size_t i = 0; i < returns.size(); ++i) {
    const auto back = info.returned_argument[i];
    if (back && arguments[*back].isTensor()) {
      written(info, arguments[*back].toTensor(), plan, node ? &*node : nullptr);
      results.push_back(arguments[*back]);
    } else if (returns[i].type()->kind() == c10::TypeKind::TensorType) {
      results.emplace_back(made(mesh, plan, node ? &*node : nullptr));
    } else {
      c10::List<at::Tensor> list;
      const std::size_t behind = returns.size() - 1 - i;
      while (next_output_ + behind < plan.outputs.size()) list.push_back(made(mesh, plan, node ? &*node : nullptr));
      results.emplace_back(std::move(list));
    }
  }
  if (node) append(std::move(*node));
}

PlanningMesh make_planning_mesh() {
  global::register_kernels();
  PlanningMesh mesh{.recorder = std::make_shared<StepRecorder>(), .state = nullptr};
  mesh.state = std::make_shared<global::MeshState>(connect(World{}, {.backend = "self"}), std::vector<int>{1},
                                                   std::vector<std::string>{"plan"}, mesh.recorder);
  return mesh;
}

at::Tensor planning_tensor(const PlanningMesh& mesh, const global::LogicalShape& shape) {
  return global::make_without_memory({.mesh = mesh.state, .sharding = mesh.state->replicated(), .local = {}}, shape);
}

}  // namespace lockstep::plan
