// Random numbers: every rank draws all of the logical tensor from libtorch's generator and keeps its part, so that the
// numbers are those of one device, whatever the mesh. Ranks stay in step as long as they draw the same.
#include <lockstep/global/local/local_call.h>
#include <lockstep/global/redistribute.h>

#include <ATen/ATen.h>

namespace lockstep::global {

void form_of_random(LocalCall& call) {
  if (!call.plan.call.in_place) return run_operator(call);  // everything is replicated
  const at::Tensor part = call.stack[0].toTensor();
  const auto& shape = call.plan.outputs[0].shape;
  // libtorch draws in the order of the memory that it fills.
  call.stack[0] = at::empty_strided(shape.sizes, shape.strides, part.options());
  run_operator(call);
  part.copy_(part_of_full(call.stack[0].toTensor(), call.mesh, call.output()));
  call.give(part);
}

}  // namespace lockstep::global
