// Local forms of convolutions: fewer groups on a part, and a bias that only one rank adds to a partial sum.
#include <lockstep/global/local/across_ranks.h>

#include <ATen/ATen.h>

namespace lockstep::global {
namespace {

/// Sets the number of groups on this rank: groups are sharded evenly with the weight's channel dimension.
void keep_own_groups(LocalCall& call) {
  const auto groups = call.plan.call.integer("groups", 1);
  if (groups == 1) return;
  const auto all = call.plan.call.info("weight").sizes[0];
  call.argument("groups") = groups * call.argument("weight").toTensor().size(0) / all;
}

at::Tensor like(const LocalCall& call, std::size_t output, const at::Tensor& model) {
  return at::zeros(call.local_output_sizes(output), model.options());
}

}  // namespace

void form_of_convolution(LocalCall& call) {
  const auto input = call.argument("input").toTensor();
  const auto weight = call.argument("weight").toTensor();
  if (!adds_once(call, call.output())) call.argument("bias") = c10::IValue();
  const bool no_channels = call.plan.outputs[0].shape.sizes[1] == 0;
  if (!no_channels && (input.numel() == 0 || weight.numel() == 0)) {  // an empty part, which libtorch rejects
    auto result = like(call, 0, input);
    const auto& bias = call.argument("bias");
    if (bias.isTensor() && bias.toTensor().defined()) {
      std::vector<std::int64_t> beside(static_cast<std::size_t>(result.dim()), 1);
      beside[1] = result.size(1);
      result.add_(bias.toTensor().view(beside));
    }
    return call.give(std::move(result));
  }
  keep_own_groups(call);
  run_operator(call);
}

void form_of_convolution_backward(LocalCall& call) {
  const auto gradient = call.argument("grad_output").toTensor();
  const auto input = call.argument("input").toTensor();
  const auto weight = call.argument("weight").toTensor();
  if (gradient.numel() > 0 && input.numel() > 0 && weight.numel() > 0) {
    keep_own_groups(call);
    if (!call.argument("bias_sizes").isNone()) call.argument("bias_sizes") = call.local_output_sizes(2);
    return run_operator(call);
  }
  const auto wanted = call.plan.call.integers("output_mask");
  const at::Tensor input_gradient = wanted[0] != 0 ? like(call, 0, input) : at::Tensor();
  const at::Tensor weight_gradient = wanted[1] != 0 ? like(call, 1, weight) : at::Tensor();
  at::Tensor bias_gradient;
  if (wanted[2] != 0) bias_gradient = gradient.transpose(0, 1).flatten(1).sum(1);
  call.stack.clear();
  for (const auto& each : {input_gradient, weight_gradient, bias_gradient}) call.stack.emplace_back(each);
}

}  // namespace lockstep::global
