// Local forms of norms over sharded dimensions: the norm of each rank's part, and one all_reduce of it.
#include <lockstep/global/local/across_ranks.h>
#include <lockstep/global/local/reduced.h>

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

namespace lockstep::global {
namespace {

double order_of(const LocalCall& call) {
  const auto& given = call.argument(call.plan.call.name == "norm" ? "p" : "ord");
  return given.isNone() ? 2.0 : given.toScalar().toDouble();
}

/// The norm of an empty part: the neutral element of the combination of norms.
double empty_norm(double order) { return order < 0 ? std::numeric_limits<double>::infinity() : 0; }

}  // namespace

void form_of_norm(LocalCall& call) {
  const auto axes = axes_to_join(call);
  if (axes.empty()) return run_operator(call);
  const double order = order_of(call);
  const auto dims = dims_or_all(call);
  const auto part = call.stack[0].toTensor();
  const auto dtype = call.plan.outputs[0].shape.dtype;
  const auto self = part.to(part.is_complex() ? c10::toComplexType(dtype) : dtype);
  auto norm = self.numel() == 0 ? at::full(call.local_output_sizes(), empty_norm(order),
                                           self.options().dtype(c10::toRealValueType(dtype)))
                                : at::linalg_vector_norm(self, order, dims, call.plan.call.flag("keepdim"));
  auto joined = norm.to(at::kDouble);
  const bool adds = !std::isinf(order);
  if (adds && order != 0) joined = joined.pow(order);
  const auto op = adds ? ReduceOp::sum : order > 0 ? ReduceOp::max : ReduceOp::min;
  reduce_over(call, axes, joined, op);
  if (adds && order != 0) joined = joined.pow(1 / order);
  call.give(joined.to(norm.scalar_type()));
}

}  // namespace lockstep::global
