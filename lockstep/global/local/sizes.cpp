// The local form of operators with the sizes of their result as an argument.
#include <lockstep/global/local/local_call.h>

#include <ATen/ATen.h>

namespace lockstep::global {

void form_with_local_sizes(LocalCall& call) {
  if (call.plan.call.overload == "dtype") return run_operator(call);  // view(dtype)
  const auto sizes = call.local_output_sizes();
  const at::Tensor self = call.stack[0].toTensor();
  if (call.plan.call.name == "expand") {
    call.give(self.expand(sizes));
  } else {
    // A part may have another memory order than the full tensor, and must then be copied.
    call.give(self.reshape(sizes));
  }
}

void form_of_cut_backward(LocalCall& call) {
  call.argument("input_sizes") = c10::IValue(call.local_output_sizes());
  run_operator(call);
}

}  // namespace lockstep::global
