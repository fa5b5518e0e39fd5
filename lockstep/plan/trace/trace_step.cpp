#include <lockstep/base/error.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/plan/trace/backward_modules.h>
#include <lockstep/plan/trace/borrowed_module.h>
#include <lockstep/plan/trace/module_names.h>
#include <lockstep/plan/trace/optimizer_parameters.h>
#include <lockstep/plan/trace/trace_step.h>

#include <torch/torch.h>

#include <fmt/ranges.h>

namespace lockstep::plan {
namespace {

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

}  // namespace lockstep::plan
