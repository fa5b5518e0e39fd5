#include <lockstep/base/error.h>
#include <lockstep/comm/arguments.h>
#include <lockstep/global/dispatch/fetched_view.h>
#include <lockstep/global/dispatch/results.h>
#include <lockstep/global/dispatch/shapes.h>
#include <lockstep/global/redistribute.h>

#include <ATen/ATen.h>

namespace lockstep::global {
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
