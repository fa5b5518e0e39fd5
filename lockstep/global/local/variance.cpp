// Local forms of variances over sharded dimensions: the global mean, then the squared deviations from it; two small
// all_reduces.
#include <lockstep/global/local/across_ranks.h>
#include <lockstep/global/local/reduced.h>

#include <ATen/ATen.h>

namespace lockstep::global {
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
