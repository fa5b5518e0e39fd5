#include <lockstep/global/differentiable.h>
#include <lockstep/global/dispatch/fetched_view.h>
#include <lockstep/global/dispatch/operator_scope.h>
#include <lockstep/global/redistribute.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

namespace lockstep::global {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// The state for backward. A custom class, because autograd's context stores only types that it knows.
struct Way : torch::CustomClassHolder {
  Way(Mesh on, Placements back_to, Whole of_whole)
      : mesh(std::move(on)), back(std::move(back_to)), whole(std::move(of_whole)) {}
  Mesh mesh;
  Placements back;
  Whole whole;
};

void keep(AutogradContext* context, Mesh mesh, Placements back, Whole whole) {
  context->saved_data["way"] =
      c10::IValue::make_capsule(c10::make_intrusive<Way>(std::move(mesh), std::move(back), std::move(whole)));
}

Whole as_whole(const at::Tensor& tensor) {
  return {.sizes = tensor.sizes().vec(), .format = tensor.suggest_memory_format()};
}

const Way& kept(AutogradContext* context) { return static_cast<const Way&>(*context->saved_data["way"].toCapsule()); }

at::Tensor wrap(const at::Tensor& local, const Mesh& mesh, const Placements& placements, const Whole& whole) {
  return make_global(
      {.mesh = mesh.state(), .sharding = mesh.state()->intern(placements), .local = local},
      {.sizes = whole.sizes, .strides = strides_in(whole.format, whole.sizes), .dtype = local.scalar_type()});
}

at::Tensor lie(const at::Tensor& tensor, const Placements& placements) {
  current_part(tensor);
  const auto& state = state_of(tensor);
  const OperatorScope on_trace(tensor, placements);
  return on_trace.run(*state.mesh, [&] {
    return redistribute_local(state.local, tensor.sizes(), tensor.suggest_memory_format(), *state.mesh,
                              state.sharding->placements, placements);
  });
}

/// In backward the conversion is reversed: the gradient of the global tensor is converted to this rank's part.
struct ToGlobal : Function<ToGlobal> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& local, const Mesh& mesh,
                            const Placements& placements, Whole whole) {
    auto result = wrap(local.detach(), mesh, placements, whole);
    keep(context, mesh, placements_of_gradient(placements), std::move(whole));
    return result;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {gradients[0].defined() ? lie(gradients[0], kept(context).back) : at::Tensor(), {}, {}, {}};
  }
};

struct Distribute : Function<Distribute> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& full, const Mesh& mesh,
                            const Placements& placements) {
    auto part = part_of_full(full.detach(), *mesh.state(), placements);
    if (part.is_alias_of(full)) part = part.clone();
    keep(context, mesh, mesh.state()->replicated()->placements, as_whole(full));
    return wrap(part, mesh, placements, as_whole(full));
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {gradients[0].defined() ? lie(gradients[0], kept(context).back) : at::Tensor(), {}, {}};
  }
};

struct Redistribute : Function<Redistribute> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tensor, const Placements& placements) {
    const auto& state = state_of(tensor);
    auto part = lie(tensor, placements);
    if (part.is_same(state.local)) part = part.clone();
    keep(context, Mesh(state.mesh), placements_of_gradient(state.sharding->placements), as_whole(tensor));
    return wrap(part, Mesh(state.mesh), placements, as_whole(tensor));
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Way& way = kept(context);
    return {gradients[0].defined() ? wrap(lie(gradients[0], way.back), way.mesh, way.back, way.whole) : at::Tensor(),
            {}};
  }
};

struct ToLocal : Function<ToLocal> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tensor, const Placements& gradient) {
    const auto& state = state_of(tensor);
    keep(context, Mesh(state.mesh), gradient, as_whole(tensor));
    return current_part(tensor).detach();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Way& way = kept(context);
    return {gradients[0].defined() ? wrap(gradients[0], way.mesh, way.back, way.whole) : at::Tensor(), {}};
  }
};

}  // namespace

Placements placements_of_gradient(const Placements& placements) {
  Placements gradient = placements;
  for (auto& each : gradient) {
    if (each.is_partial()) each = Replicate();
  }
  return gradient;
}

at::Tensor differentiable_to_global(const at::Tensor& local, const Mesh& mesh, const Placements& placements,
                                    Whole whole) {
  return ToGlobal::apply(local, mesh, placements, std::move(whole));
}

at::Tensor differentiable_distribute(const at::Tensor& full, const Mesh& mesh, const Placements& placements) {
  return Distribute::apply(full, mesh, placements);
}

at::Tensor differentiable_redistribute(const at::Tensor& tensor, const Placements& placements) {
  return Redistribute::apply(tensor, placements);
}

at::Tensor differentiable_to_local(const at::Tensor& tensor, const Placements& gradient) {
  return ToLocal::apply(tensor, gradient);
}

}  // namespace lockstep::global
