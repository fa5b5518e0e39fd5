// The tracing of a step: the module's tensors lose their memory for that time, and backward operators get their
// modules.
// And a fallback for an unused dispatch key that sends the factories of large tensors to a planning mesh without
// memory.
#include <lockstep/base/error.h>
#include <lockstep/global/dispatch/named_operators.h>
#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/tensor_state.h>
#include <lockstep/plan/graph.h>
#include <lockstep/plan/trace/step_recorder.h>
#include <lockstep/plan/trace/trace_step.h>

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/library.h>
#include <torch/nn/module.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

namespace lockstep::plan {
namespace {

class Enter final : public torch::autograd::FunctionPreHook {
 public:
  Enter(std::shared_ptr<StepRecorder> recorder, std::string module)
      : recorder_(std::move(recorder)), module_(std::move(module)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    recorder_->enter(module_);
    return gradients;
  }

 private:
  std::shared_ptr<StepRecorder> recorder_;
  std::string module_;
};

std::string module_of(const torch::autograd::Node& node, const StepRecorder& recorder) {
  if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(&node)) {
    const auto value = global::state_of(leaf->variable).traced;
    return value == global::kNotTraced ? std::string() : recorder.module_of_value(value);
  }
  return recorder.module_of_sequence(node.sequence_nr());
}

/// Installs hooks on the autograd graph of `loss`: before backward calls a node, the recorder enters the module whose
/// operator created the node.
void follow_backward(const at::Tensor& loss, const std::shared_ptr<StepRecorder>& recorder) {
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open{loss.grad_fn().get()};
  while (!open.empty()) {
    auto* node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    node->add_pre_hook(std::make_unique<Enter>(recorder, module_of(*node, *recorder)));
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
}

/// A module whose parameters and buffers temporarily have no memory: while this exists, the tensors of the module are
/// values of the recorder's graph, for all handles to them; its destructor restores them with their values and
/// gradients. The module must outlive it. Error(invalid_argument) for a module whose parameters are global already.
class BorrowedModule {
 public:
  BorrowedModule(torch::nn::Module& module, const PlanningMesh& mesh);
  ~BorrowedModule();
  BorrowedModule(const BorrowedModule&) = delete;
  BorrowedModule& operator=(const BorrowedModule&) = delete;

  /// The trainable parameters, each once.
  const std::vector<at::Tensor>& parameters() const { return parameters_; }

 private:
  struct Kept {
    at::Tensor tensor;
    at::Tensor before;
    at::Tensor gradient;
  };
  void borrow(const std::string& name, const at::Tensor& tensor, ValueKind kind, const PlanningMesh& mesh);

  std::vector<Kept> kept_;
  std::vector<at::Tensor> parameters_;
};

BorrowedModule::BorrowedModule(torch::nn::Module& module, const PlanningMesh& mesh) {
  mesh.recorder->set_containers(global::containers_of(module));
  for (const auto& each : module.named_parameters()) borrow(each.key(), each.value(), ValueKind::parameter, mesh);
  for (const auto& each : module.named_buffers()) borrow(each.key(), each.value(), ValueKind::buffer, mesh);
}

void BorrowedModule::borrow(const std::string& name, const at::Tensor& tensor, ValueKind kind,
                            const PlanningMesh& mesh) {
  const auto same = [&](const Kept& each) { return each.tensor.is_same(tensor); };
  if (!tensor.defined() || std::any_of(kept_.begin(), kept_.end(), same)) return;
  if (global::is_global(tensor) && global::state_of(tensor).mesh->recorder() == nullptr) {
    fail(ErrorKind::invalid_argument, "plan", "{} is a global tensor already; plan a model before it is distributed",
         name);
  }
  kept_.push_back({.tensor = tensor, .before = snapshot(tensor), .gradient = tensor.grad()});
  if (tensor.grad().defined()) tensor.mutable_grad() = at::Tensor();
  const auto planned = planning_tensor(mesh, global::shape_of(tensor));
  mesh.recorder->name(planned, kind, name, std::string(owner_of(name)));
  become(tensor, planned);
  if (kind == ValueKind::parameter && tensor.requires_grad()) parameters_.push_back(tensor);
}

BorrowedModule::~BorrowedModule() {
  for (const auto& each : kept_) {
    if (each.tensor.grad().defined()) each.tensor.mutable_grad() = at::Tensor();
    become(each.tensor, each.before);
    if (each.gradient.defined()) each.tensor.mutable_grad() = each.gradient;
  }
}

std::vector<at::Tensor> planning_inputs(const std::vector<ExampleInput>& inputs, const PlanningMesh& mesh) {
  std::vector<at::Tensor> tensors;
  for (const auto& each : inputs) {
    tensors.push_back(planning_tensor(
        mesh, {.sizes = each.sizes, .strides = global::row_major_strides(each.sizes), .dtype = each.dtype}));
    mesh.recorder->name(tensors.back(), ValueKind::input, each.name);
  }
  return tensors;
}

void require_loss(const at::Tensor& loss) {
  if (!loss.defined() || !global::is_global(loss) || loss.numel() != 1 || !loss.requires_grad()) {
    fail(ErrorKind::invalid_argument, "plan",
         "a step's loss is one number that depends on the module's parameters, not {}",
         loss.defined() ? fmt::format("a tensor of shape [{}]{}", fmt::join(loss.sizes(), ", "),
                                      loss.requires_grad() ? "" : " without a gradient")
                        : "an undefined tensor");
  }
}

void name_gradients(const std::vector<at::Tensor>& parameters, Graph& graph) {
  for (const auto& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    auto& gradient = graph.values.at(global::state_of(parameter.grad()).traced);
    gradient.kind = ValueKind::gradient;
    gradient.name = graph.values.at(global::state_of(parameter).traced).name;
  }
}

/// Attributes operators that use a gradient to the module of its parameter; other operators, such as those on a common
/// norm, belong to no module.
void attribute_preparation(Graph& graph, std::size_t first) {
  for (std::size_t i = first; i < graph.nodes.size(); ++i) {
    auto& node = graph.nodes[i];
    node.module.clear();
    for (const auto value : node.inputs) {
      if (value == kNoValue || graph.values[value].kind != ValueKind::gradient) continue;
      node.module = owner_of(graph.values[value].name);
    }
  }
}

void record_preparation(const StepProgram& program, const std::vector<at::Tensor>& parameters, StepRecorder& recorder) {
  const auto first = recorder.graph().nodes.size();
  recorder.begin(Phase::optimizer);
  program.prepare_gradients(parameters);
  recorder.pause();
  attribute_preparation(recorder.graph(), first);
}

/// Records the optimizer's second step: the first one creates its state, all later ones are like the second.
void record_update(torch::optim::Optimizer& optimizer, StepRecorder& recorder) {
  optimizer.step();
  const auto first = recorder.graph().nodes.size();
  recorder.begin(Phase::optimizer);
  optimizer.step();
  recorder.pause();
  attribute_optimizer(recorder.graph(), first);
}

}  // namespace

std::vector<ExampleInput> examples_of(const std::vector<at::Tensor>& tensors) {
  std::vector<ExampleInput> examples;
  for (const auto& each : tensors) {
    examples.push_back(
        {.name = fmt::format("input{}", examples.size()), .sizes = each.sizes().vec(), .dtype = each.scalar_type()});
  }
  return examples;
}

Graph trace_step(const StepProgram& program) {
  const auto mesh = make_planning_mesh();
  const MeshScope factories_here{Mesh(mesh.state)};
  const torch::AutoGradMode with_gradients(true);
  const BorrowedModule borrowed(*program.module, mesh);
  auto& recorder = *mesh.recorder;
  {
    const auto inputs = planning_inputs(program.inputs, mesh);
    recorder.begin(Phase::forward);
    const auto loss = program.loss(inputs);
    recorder.pause();
    require_loss(loss);
    follow_backward(loss, mesh.recorder);
    recorder.begin(Phase::backward);
    loss.backward();
    recorder.pause();
  }
  name_gradients(borrowed.parameters(), recorder.graph());
  if (program.prepare_gradients) record_preparation(program, borrowed.parameters(), recorder);
  if (program.optimizer) record_update(*program.optimizer(borrowed.parameters()), recorder);
  return std::move(recorder.graph());
}

namespace {

/// The only dispatch key of libtorch that has priority over all others, can be enabled for a thread, and is not used.
constexpr auto kModeKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr std::int64_t kSmallBytes = 64 << 10;

/// The index of the device among the arguments of a factory that makes a large tensor; -1 for all other calls.
std::ptrdiff_t device_of_large(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  const auto& schema = op.schema().arguments();
  std::ptrdiff_t device = -1;
  std::int64_t elements = -1;
  for (std::size_t i = 0; i < schema.size(); ++i) {
    if (arguments[i].isTensor() || arguments[i].isTensorList()) return -1;
    if (schema[i].name() == "device") device = static_cast<std::ptrdiff_t>(i);
    if (schema[i].name() == "size" && arguments[i].isIntList()) {
      elements = 1;
      for (const std::int64_t size : arguments[i].toIntVector()) elements *= size;
    }
  }
  return elements * static_cast<std::int64_t>(sizeof(float)) >= kSmallBytes ? device : -1;
}

void redirect_factories(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(kModeKey);
  const auto count = op.schema().arguments().size();
  const auto device = device_of_large(op, torch::jit::last(*stack, count));
  if (device >= 0)
    (*stack)[stack->size() - count + static_cast<std::size_t>(device)] = c10::Device(global::kDeviceType, 0);
  op.callBoxed(stack);
}

/// Never unregistered, like the kernels of global tensors.
void register_redirection() {
  static torch::Library fallback(torch::Library::IMPL, "_", kModeKey, __FILE__, __LINE__);
  static const bool done = [] {
    fallback.fallback(torch::CppFunction::makeFromBoxedFunction<&redirect_factories>());
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace

struct WithoutMemory::State {
  PlanningMesh mesh = make_planning_mesh();
  MeshScope factories_here{Mesh(mesh.state)};
  c10::impl::IncludeDispatchKeyGuard redirected{kModeKey};
};

WithoutMemory::WithoutMemory() {
  register_redirection();
  state_ = std::make_unique<State>();
}

WithoutMemory::~WithoutMemory() = default;

at::Tensor snapshot(const at::Tensor& tensor) {
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(/*version_counter=*/0,
                                                                          /*allow_tensor_metadata_change=*/true));
}

void become(const at::Tensor& tensor, const at::Tensor& other) {
  tensor.unsafeGetTensorImpl()->shallow_copy_from(other.getIntrusivePtr());
}

}  // namespace lockstep::plan
