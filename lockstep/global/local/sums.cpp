// Local forms of operators that add to a partial sum.
#include <lockstep/global/local/across_ranks.h>

#include <ATen/ATen.h>

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

}  // namespace lockstep::global
