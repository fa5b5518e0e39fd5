#include <lockstep/base/error.h>
#include <lockstep/comm/arguments.h>
#include <lockstep/global/dispatch/ambient_mesh.h>
#include <lockstep/global/dispatch/fetched_view.h>
#include <lockstep/global/dispatch/inputs.h>
#include <lockstep/global/redistribute.h>

namespace lockstep::global {
namespace {

std::string argument_name(const c10::OperatorHandle& op, std::size_t position) {
  return op.schema().arguments()[position].name();
}

[[noreturn]] void refuse_local(const c10::OperatorHandle& op, const OpInfo& info, const TensorArgument& local,
                               const TensorArgument& global) {
  fail(
      ErrorKind::invalid_argument, "global view",
      "argument \"{}\" of {} is an ordinary tensor, {}, while \"{}\" is global; make it global with distribute(tensor, "
      "mesh, "
      "placements) if every rank has the whole, with to_global(tensor, mesh, placements) if each has its part, or take "
      "this rank's part of the other with to_local()",
      argument_name(op, local.position), info.shown, detail::describe(local.tensor),
      argument_name(op, global.position));
}

/// Reduces a tensor in place on the axes on which it is partial and the plan needs it replicated. Returns its new
/// placements.
const Sharding* finish_partials(const at::Tensor& tensor, const Placements& needed) {
  auto& state = state_of(tensor);
  Placements finished = state.sharding->placements;
  for (std::size_t axis = 0; axis < finished.size(); ++axis) {
    if (finished[axis].is_partial() && needed[axis].is_replicate()) finished[axis] = Replicate();
  }
  if (finished == state.sharding->placements || !alone(state)) return state.sharding;
  set_part(tensor, redistribute_local(state.local, tensor.sizes(), tensor.suggest_memory_format(), *state.mesh,
                                      state.sharding->placements, finished));
  state.sharding = state.mesh->intern(finished);
  return state.sharding;
}

at::Tensor local_input(const at::Tensor& tensor, const Sharding* needed, MeshState& mesh) {
  if (!needed) return tensor;
  const auto& state = state_of(tensor);
  if (state.sharding == needed || finish_partials(tensor, needed->placements) == needed) return state.local;
  return redistribute_local(state.local, tensor.sizes(), tensor.suggest_memory_format(), mesh,
                            state.sharding->placements, needed->placements);
}

}  // namespace

std::shared_ptr<MeshState> mesh_of_call(const c10::OperatorHandle& op, const OpInfo& info,
                                        const std::vector<TensorArgument>& inputs) {
  const TensorArgument* first = nullptr;
  for (const auto& each : inputs) {
    if (!is_global(each.tensor)) continue;
    if (!first) {
      first = &each;
    } else if (state_of(each.tensor).mesh != state_of(first->tensor).mesh) {
      fail(ErrorKind::invalid_argument, "global view",
           "arguments \"{}\" and \"{}\" of {} lie on different meshes, {} and {}; all tensors of an operator are on "
           "one mesh",
           argument_name(op, first->position), argument_name(op, each.position), info.shown,
           to_string(Mesh(state_of(first->tensor).mesh)), to_string(Mesh(state_of(each.tensor).mesh)));
    }
  }
  if (!first) {
    auto mesh = ambient_mesh();
    if (mesh) return mesh;
    fail(ErrorKind::invalid_argument, "global view",
         "{} makes a global tensor, but there is no mesh; construct a Mesh first", info.shown);
  }
  for (const auto& each : inputs) {
    if (each.tensor.defined() && !is_global(each.tensor) && each.tensor.dim() > 0) refuse_local(op, info, each, *first);
  }
  const auto& mesh = state_of(first->tensor).mesh;
  work_with(mesh);
  return mesh;
}

std::vector<at::Tensor> local_inputs(const Plan& plan, const std::vector<TensorArgument>& inputs, MeshState& mesh) {
  std::vector<at::Tensor> locals;
  locals.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) locals.push_back(local_input(inputs[i].tensor, plan.inputs[i], mesh));
  return locals;
}

}  // namespace lockstep::global
