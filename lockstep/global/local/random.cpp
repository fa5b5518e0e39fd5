// Random numbers: every rank draws all of the logical tensor from libtorch's generator and keeps its part, so that the
// numbers are those of one device, whatever the mesh. Ranks stay in step as long as they draw the same.
#include <lockstep/global/local/local_call.h>
#include <lockstep/global/redistribute.h>

#include <ATen/ATen.h>

namespace lockstep::global {

void form_of_random(LocalCall& call) {
  const at::Tensor part = call.stack[0].toTensor();
  const auto& placements = call.output();
  const auto& shape = call.plan.outputs[0].shape;
  call.stack[0] = at::empty(shape.sizes, part.options());
  run_operator(call);
  const auto full = call.stack[0].toTensor();
  const auto mine = part_of_full(full, call.mesh, placements);
  if (part.sizes() == mine.sizes()) {
    part.copy_(mine);
    call.give(part);
  } else {
    call.give(mine);
  }
}

}  // namespace lockstep::global
