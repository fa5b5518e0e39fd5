// The local form of pooling and resampling.
#include <lockstep/global/local/local_call.h>

#include <ATen/ATen.h>

namespace lockstep::global {

/// libtorch rejects pictures without channels; a rank without planes returns an empty result.
void form_of_planes(LocalCall& call) {
  const auto& arguments = call.op.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == "input_size") call.stack[i] = call.local_output_sizes();
  }
  const auto first = call.stack[0].toTensor();
  if (first.numel() > 0 || call.plan.call.tensors[0].elements() == 0) return run_operator(call);
  call.stack.clear();
  for (std::size_t i = 0; i < call.plan.outputs.size(); ++i) {
    call.stack.emplace_back(
        at::zeros(call.local_output_sizes(i), first.options().dtype(call.plan.outputs[i].shape.dtype)));
  }
}

}  // namespace lockstep::global
