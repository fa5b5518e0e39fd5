// The local form of random operators: every rank draws the full logical tensor from libtorch's generator and keeps its
// part, so that the values are those of one device, for every mesh. The generators of the ranks stay equal as long as
// all ranks draw the same tensors.
#include <lockstep/global/local/local_call.h>
#include <lockstep/global/redistribute.h>

#include <ATen/ATen.h>

namespace lockstep::global {

void form_of_random(LocalCall& call) {
  if (!call.plan.call.in_place) return run_operator(call);  // everything is replicated
  const at::Tensor part = call.stack[0].toTensor();
  const auto& shape = call.plan.outputs[0].shape;
  // libtorch fills memory in order, so the strides must be the logical ones.
  call.stack[0] = at::empty_strided(shape.sizes, shape.strides, part.options());
  run_operator(call);
  part.copy_(part_of_full(call.stack[0].toTensor(), call.mesh, call.output()));
  call.give(part);
}

}  // namespace lockstep::global
