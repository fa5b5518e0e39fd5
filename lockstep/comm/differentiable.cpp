// Collectives that autograd records:
//
//   forward                backward, of the ranks' gradients
//   all_reduce sum, mean   all_reduce sum, mean
//   all_gather             reduce_scatter sum
//   reduce_scatter sum     all_gather
//   reduce_scatter mean    all_gather, divided by the number of ranks
//   all_to_all             all_to_all
//
// The backward functions call the public functions, so they are differentiable too.
#include <lockstep/comm/differentiable.h>

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <utility>

namespace lockstep::detail {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using Map = std::function<Tensor(const Tensor&)>;

/// A custom class, because autograd's context stores only its own types.
struct KeptMap : torch::CustomClassHolder {
  explicit KeptMap(Map its_map) : map(std::move(its_map)) {}
  Map map;
};

struct RecordedCollective : torch::autograd::Function<RecordedCollective> {
  static Tensor forward(AutogradContext* context, const Tensor& tensor, const Map& forth, const Map& back,
                        bool in_place) {
    context->saved_data["back"] = c10::IValue::make_capsule(c10::make_intrusive<KeptMap>(back));
    if (in_place) context->mark_dirty({tensor});
    return forth(tensor);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto kept = context->saved_data["back"].toCapsule();
    return {static_cast<const KeptMap&>(*kept).map(gradients[0]), Tensor(), Tensor(), Tensor()};
  }
};

Problem refusal_of_gradient(std::string_view op, std::string_view instead) {
  return fmt::format(
      "the tensor requires a gradient, and {} does not differentiate: {}; where no gradient is meant, pass "
      "tensor.detach() or call it under torch::NoGradGuard",
      op, instead);
}

}  // namespace

bool is_recorded(const Tensor& tensor) {
  return tensor.defined() && tensor.requires_grad() && at::GradMode::is_enabled() &&
         !c10::impl::tls_local_dispatch_key_set().excluded_.has(c10::DispatchKey::AutogradFunctionality);
}

Problem check_unrecorded(const Tensor& tensor, std::string_view op, std::string_view instead) {
  if (!is_recorded(tensor)) return std::nullopt;
  return refusal_of_gradient(op, instead);
}

Problem check_no_result(const Tensor& tensor, std::string_view op, std::string_view instead) {
  if (!is_recorded(tensor) || tensor.is_leaf()) return std::nullopt;
  return refusal_of_gradient(op, instead);
}

void recorded_all_reduce(Tensor& tensor, const Group& group, ReduceOp op) {
  const auto reduced = [group, op](Tensor whole) {
    all_reduce(whole, group, op);
    return whole;
  };
  RecordedCollective::apply(tensor, Map(reduced),
                            Map([reduced](const Tensor& gradient) { return reduced(gradient.clone()); }),
                            /*in_place=*/true);
}

Tensor recorded_all_gather(const Tensor& tensor, const Group& group) {
  const auto shape = tensor.sizes().vec();
  return RecordedCollective::apply(
      tensor, Map([group](const Tensor& part) { return all_gather(part, group); }),
      Map([group, shape](const Tensor& gradient) { return reduce_scatter(gradient, group).view(shape); }),
      /*in_place=*/false);
}

Tensor recorded_reduce_scatter(const Tensor& tensor, const Group& group, ReduceOp op) {
  const int divisor = op == ReduceOp::mean ? group.size() : 1;
  return RecordedCollective::apply(tensor,
                                   Map([group, op](const Tensor& whole) { return reduce_scatter(whole, group, op); }),
                                   Map([group, divisor](const Tensor& gradient) {
                                     const auto all = all_gather(gradient, group);
                                     return divisor == 1 ? all : all / divisor;
                                   }),
                                   /*in_place=*/false);
}

Tensor recorded_all_to_all(const Tensor& tensor, const Group& group) {
  const auto exchanged = [group](const Tensor& slices) { return all_to_all(slices, group); };
  return RecordedCollective::apply(tensor, Map(exchanged), Map(exchanged), /*in_place=*/false);
}

}  // namespace lockstep::detail
