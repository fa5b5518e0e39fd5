// Local forms of reductions: sums to which one rank adds, the mean, and norms and variances over sharded dimensions.
#include <lockstep/global/local/local_call.h>

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

namespace lockstep::global {

void form_of_mean(LocalCall& call) {
  const auto& whole = call.plan.call.tensors[0];
  const auto& result = call.plan.outputs[0].shape;
  std::int64_t results = 1;
  for (const auto size : result.sizes) results *= size;
  const at::Tensor self = call.stack[0].toTensor();
  const auto dims = call.plan.call.integers("dim");
  const auto sum = dims.empty() && !call.plan.call.flag("keepdim")
                       ? at::sum(self, result.dtype)
                       : at::sum(self, at::OptionalIntArrayRef(dims), call.plan.call.flag("keepdim"), result.dtype);
  call.give(sum.div(static_cast<double>(whole.elements()) / static_cast<double>(results)));
}

void form_of_sum_of_product(LocalCall& call) {
  // With beta = 0, `self` is not read.
  if (!adds_once(call, call.output())) call.argument("beta") = at::Scalar(0);
  run_operator(call);
}

void form_of_sum_of_batched_product(LocalCall& call) {
  if (!adds_once(call, call.output())) {
    // Not beta = 0: libtorch 1.13 then multiplies uninitialized memory by 0, which may give NaN.
    const auto self = call.argument("self").toTensor();
    call.argument("self") = at::zeros({}, self.options()).expand_as(self);
  }
  run_operator(call);
}

namespace {

double order_of(const LocalCall& call) {
  const auto& given = call.argument(call.plan.call.name == "norm" ? "p" : "ord");
  return given.isNone() ? 2.0 : given.toScalar().toDouble();
}

/// The norm of an empty part: the neutral element of the combination of norms.
double empty_norm(double order) { return order < 0 ? std::numeric_limits<double>::infinity() : 0; }

}  // namespace

/// The norm of each rank's part, and one all_reduce of it.
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

namespace {

double rows_reduced(const LocalCall& call) {
  const auto& whole = call.plan.call.tensors[0];
  double rows = 1;
  for (const auto dim : dims_or_all(call)) rows *= static_cast<double>(whole.sizes[static_cast<std::size_t>(dim)]);
  return rows;
}

at::Tensor joined_sum(const LocalCall& call, const at::Tensor& values, const Axes& axes) {
  auto sum = values.sum(dims_or_all(call), /*keepdim=*/true);
  reduce_over(call, axes, sum);
  return sum;
}

at::Tensor in_result_shape(const LocalCall& call, const at::Tensor& value, at::ScalarType dtype) {
  return value.reshape(call.local_output_sizes()).to(dtype);
}

/// The dtype in which values of `dtype` are accumulated.
at::ScalarType wide(at::ScalarType dtype) {
  return dtype == at::kDouble || at::isComplexType(dtype) ? dtype : at::kFloat;
}

}  // namespace

/// The global mean, then the squared deviations from it: two small all_reduces.
void form_of_variance(LocalCall& call) {
  const auto axes = axes_to_join(call);
  if (axes.empty()) return run_operator(call);
  const auto part = call.stack[0].toTensor();
  const auto dtype = part.scalar_type();
  const auto self = part.to(wide(dtype));
  const double rows = rows_reduced(call);
  const auto mean = joined_sum(call, self, axes).div(rows);
  const auto squares = joined_sum(call, self.sub(mean).abs().square(), axes);
  const auto& correction = call.argument("correction");
  auto spread = squares.div(std::max(0.0, rows - (correction.isNone() ? 1.0 : correction.toScalar().toDouble())));
  const auto& name = call.plan.call.name;
  if (name.starts_with("std")) spread = spread.sqrt();
  call.give(in_result_shape(call, spread, c10::toRealValueType(dtype)));
  if (name.ends_with("_mean")) call.stack.emplace_back(in_result_shape(call, mean, dtype));
}

}  // namespace lockstep::global
