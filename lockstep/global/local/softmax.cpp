// Local forms of softmax along a sharded dimension.
#include <lockstep/base/error.h>
#include <lockstep/global/local/across_ranks.h>

#include <ATen/ATen.h>

#include <limits>

namespace lockstep::global {
namespace {

struct Along {
  std::int64_t dim;
  Axes axes;  ///< of the mesh, that divide it
};

Along normalized_dim(const LocalCall& call) {
  if (const auto& self = call.plan.call.tensors[0]; !self.floating) {
    fail(ErrorKind::invalid_argument, "global view", "{} is of floating-point numbers only; convert with to() first",
         call.plan.call.name);
  }
  const auto dim = wrapped_dim(call.plan.call.integer("dim"), call.plan.call.tensors[0].dim());
  return {.dim = dim, .axes = axes_that_divide(call, call.input(0), dim)};
}

at::Tensor largest_of_all(const LocalCall& call, const at::Tensor& values, const Along& along) {
  auto sizes = values.sizes().vec();
  auto& rows = sizes[static_cast<std::size_t>(along.dim)];
  const bool none_here = rows == 0;
  rows = 1;
  auto largest = none_here ? at::full(sizes, -std::numeric_limits<double>::infinity(), values.options())
                           : values.amax(along.dim, /*keepdim=*/true);
  reduce_over(call, along.axes, largest, ReduceOp::max);
  return largest;
}

at::Tensor sum_of_all(const LocalCall& call, const at::Tensor& values, const Along& along) {
  auto sum = values.sum(along.dim, /*keepdim=*/true);
  reduce_over(call, along.axes, sum);
  return sum;
}

}  // namespace

void form_of_softmax(LocalCall& call) {
  const auto along = normalized_dim(call);
  if (along.axes.empty()) return run_operator(call);
  const auto values = call.stack[0].toTensor();
  const auto centered = values - largest_of_all(call, values, along);
  const auto exponentials = centered.exp();
  const auto sum = sum_of_all(call, exponentials, along);
  call.give(call.plan.call.name == "_softmax" ? exponentials / sum : centered - sum.log());
}

void form_of_softmax_backward(LocalCall& call) {
  const auto along = normalized_dim(call);
  if (along.axes.empty()) return run_operator(call);
  const auto gradient = call.stack[0].toTensor();
  const auto output = call.stack[1].toTensor();
  if (call.plan.call.name == "_softmax_backward_data") {
    const auto weighted = gradient * output;
    return call.give(weighted - output * sum_of_all(call, weighted, along));
  }
  call.give(gradient - output.exp() * sum_of_all(call, gradient, along));
}

}  // namespace lockstep::global
