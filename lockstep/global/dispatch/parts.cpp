// The parts of a call's inputs, with partial values reduced in place where no other tensor shares the memory, and
// results that are wrapped as new global tensors or assigned to the caller's.
#include <lockstep/base/error.h>
#include <lockstep/comm/arguments.h>
#include <lockstep/global/dispatch/fetched_view.h>
#include <lockstep/global/dispatch/kernels.h>
#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/prefetch.h>
#include <lockstep/global/mesh_state.h>
#include <lockstep/global/redistribute.h>

#include <ATen/ATen.h>

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
  if (auto* prefetch = mesh.prefetch()) {
    if (auto gathered = prefetch->take(tensor, needed)) return *gathered;
  }
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

namespace {

bool has_partial(const Placements& placements) {
  for (const auto& each : placements) {
    if (each.is_partial()) return true;
  }
  return false;
}

void take_over(const at::Tensor& own, const at::Tensor& local, const LogicalShape& shape, const Sharding* sharding) {
  if (own.sizes() != c10::IntArrayRef(shape.sizes))
    own.unsafeGetTensorImpl()->set_sizes_and_strides(shape.sizes, shape.strides);
  set_part(own, local);
  state_of(own).sharding = sharding;
}

/// t_ and similar: the same memory with another shape. Other handles to the tensor keep its old shape.
void reshape(const at::Tensor& own, const at::Tensor& local, const LogicalShape& shape, const Sharding* sharding) {
  const auto& state = state_of(own);
  exchange_state(own, {.mesh = state.mesh, .sharding = sharding, .local = local, .unwritten = state.unwritten}, shape);
}

void check_own(const OpInfo& info, const at::Tensor& own) {
  if (is_global(own)) return;
  fail(ErrorKind::invalid_argument, "global view",
       "{} would write a global result into an ordinary tensor, {}; make that global with distribute() first, or "
       "compute with ordinary tensors, which full() and to_local() give",
       info.shown, detail::describe(own));
}

/// Wraps results one by one, in the order of plan.outputs.
class Wrapper {
 public:
  Wrapper(const Plan& plan, const std::shared_ptr<MeshState>& mesh, bool unwritten)
      : plan_(plan), mesh_(mesh), unwritten_(unwritten) {}

  at::Tensor wrap(const at::Tensor& local) {
    const std::size_t index = next_++;
    if (!local.defined()) return local;
    const bool known = index < plan_.outputs.size();
    return make_global({.mesh = mesh_,
                        .sharding = known ? plan_.outputs[index].sharding : mesh_->replicated(),
                        .local = local,
                        .unwritten = unwritten_},
                       known ? plan_.outputs[index].shape : shape_of(local));
  }

  void assign_to(const at::Tensor& own, const at::Tensor& local, bool reshapes) {
    const std::size_t index = next_++;
    const bool known = index < plan_.outputs.size();
    (reshapes ? reshape : assign)(own, local, known ? plan_.outputs[index].shape : shape_of(local),
                                  known ? plan_.outputs[index].sharding : mesh_->replicated());
  }

 private:
  const Plan& plan_;
  const std::shared_ptr<MeshState>& mesh_;
  bool unwritten_;
  std::size_t next_ = 0;
};

c10::IValue wrap_value(Wrapper& wrapper, const c10::IValue& value) {
  if (value.isTensor()) return wrapper.wrap(value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> list;
  for (const auto& each : value.toTensorVector()) list.push_back(wrapper.wrap(each));
  return list;
}

}  // namespace

void assign(const at::Tensor& own, const at::Tensor& local, const LogicalShape& shape, const Sharding* sharding) {
  auto& state = state_of(own);
  const bool resized = own.sizes() != c10::IntArrayRef(shape.sizes);
  if (local.is_same(state.local)) {
    state.sharding = sharding;
  } else if (state.unwritten || resized || (has_partial(state.sharding->placements) && alone(state))) {
    take_over(own, local.scalar_type() == own.scalar_type() ? local : local.to(own.scalar_type()), shape, sharding);
  } else {
    state.local.copy_(redistribute_local(local, own.sizes(), own.suggest_memory_format(), *state.mesh,
                                         sharding->placements, state.sharding->placements));
  }
  state.unwritten = false;
}

torch::jit::Stack global_results(const OpInfo& info, const Plan& plan, const std::shared_ptr<MeshState>& mesh,
                                 torch::jit::Stack results, const torch::jit::Stack& own) {
  Wrapper wrapper(plan, mesh, info.makes_unwritten);
  torch::jit::Stack wrapped;
  wrapped.reserve(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto back = i < info.returned_argument.size() ? info.returned_argument[i] : std::nullopt;
    if (back && own[*back].isTensor()) {
      check_own(info, own[*back].toTensor());
      check_written(info, own[*back].toTensor());
      wrapper.assign_to(own[*back].toTensor(), results[i].toTensor(), info.reshapes_self);
      if (!info.reshapes_self) note_written(own[*back].toTensor());
      wrapped.push_back(own[*back]);
    } else {
      wrapped.push_back(wrap_value(wrapper, results[i]));
    }
  }
  return wrapped;
}

}  // namespace lockstep::global
