// Local forms of the layers of networks: convolutions, pooling, batch and group norm, embeddings.
#include <lockstep/global/local/local_call.h>
#include <lockstep/global/redistribute.h>
#include <lockstep/kernels/batch_norm.h>

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

namespace {

constexpr std::int64_t kChannels = 1;

at::Tensor optional_tensor(const LocalCall& call, std::string_view name) {
  const auto& value = call.argument(name);
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

/// The placements of a per-channel tensor: sharded as the channels of the input.
Placements like_channels(const Placements& input) {
  Placements placements(input.size());
  for (std::size_t axis = 0; axis < input.size(); ++axis) {
    if (input[axis].is_shard(kChannels)) placements[axis] = Shard(0);
  }
  return placements;
}

/// running = (1 - momentum) * running + momentum * now, in place, for any placements of `running`.
void update(LocalCall& call, std::string_view name, const at::Tensor& now) {
  const auto running = optional_tensor(call, name);
  if (!running.defined()) return;
  const auto momentum = call.argument("momentum").toDouble();
  const auto& sizes = call.plan.call.info(name).sizes;
  const auto part =
      redistribute_local(now.to(running.scalar_type()), sizes, c10::MemoryFormat::Contiguous, call.mesh,
                         like_channels(placements_of_input(call, "input")), placements_of_input(call, name));
  running.mul_(1 - momentum).add_(part, momentum);
}

/// Redistributes running statistics to the sharding of the input's channels.
void bring(LocalCall& call, std::string_view name) {
  const auto running = optional_tensor(call, name);
  if (!running.defined()) return;
  call.argument(name) =
      redistribute_local(running, call.plan.call.info(name).sizes, c10::MemoryFormat::Contiguous, call.mesh,
                         placements_of_input(call, name), like_channels(placements_of_input(call, "input")));
}

bool lie_alike(const LocalCall& call, std::string_view name) {
  return !optional_tensor(call, name).defined() ||
         placements_of_input(call, name) == like_channels(placements_of_input(call, "input"));
}

void give_three(LocalCall& call, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  call.stack.clear();
  for (const auto& each : {a, b, c}) call.stack.emplace_back(each);
}

/// Runs the operator itself, except on empty parts, which it does not support.
void run_unless_empty(LocalCall& call, const std::vector<std::int64_t>& wanted) {
  const auto input = call.argument("input").toTensor();
  if (input.numel() > 0) return run_operator(call);
  call.stack.clear();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    call.stack.emplace_back(wanted[i] != 0 ? at::zeros(call.local_output_sizes(i), input.options()) : at::Tensor());
  }
}

void train_on_parts(LocalCall& call, const Axes& axes) {
  const auto input = call.argument("input").toTensor();
  const auto& norm = kernels::batch_norm_for(input);
  auto moments = norm.moments(input);
  for (const auto axis : axes) moments = norm.joined(gather_along(call, axis, moments));
  const auto part = norm.normalized(input, optional_tensor(call, "weight"), optional_tensor(call, "bias"), moments,
                                    call.argument("eps").toDouble());
  update(call, "running_mean", part.mean);
  update(call, "running_var", part.sample_variance);
  const auto dtype = input.scalar_type();
  give_three(call, part.output, part.mean.to(dtype), part.inverse_deviation.to(dtype));
}

/// The gradient of a batch norm in training; sums over the batch are reduced over the ranks.
void backward_on_parts(LocalCall& call, const Axes& axes) {
  const auto input = call.argument("input").toTensor();
  const auto gradient = call.argument("grad_out").toTensor();
  const auto weight = optional_tensor(call, "weight");
  const auto mean = call.argument("save_mean").toTensor();
  const auto scale = call.argument("save_invstd").toTensor();
  const auto wanted = call.plan.call.integers("output_mask");
  const auto& whole = call.plan.call.info("input");
  const auto values = static_cast<double>(whole.elements()) / static_cast<double>(whole.sizes[kChannels]);

  const auto& norm = kernels::batch_norm_for(input);
  auto sums = norm.gradient_sums(gradient, input, mean, scale);
  reduce_over(call, axes, sums);
  give_three(call,
             wanted[0] != 0 ? norm.gradient_of_input(gradient, input, weight, mean, scale, sums, values) : at::Tensor(),
             wanted[1] != 0 ? sums[0].to(mean.scalar_type()) : at::Tensor(),
             wanted[2] != 0 ? sums[1].to(mean.scalar_type()) : at::Tensor());
}

}  // namespace

void form_of_batch_norm(LocalCall& call) {
  const bool training = call.plan.call.flag("training");
  const auto axes = axes_that_divide_others(call, placements_of_input(call, "input"), kChannels);
  if (training && (!axes.empty() || !lie_alike(call, "running_mean") || !lie_alike(call, "running_var"))) {
    return train_on_parts(call, axes);
  }
  if (!training) {
    bring(call, "running_mean");
    bring(call, "running_var");
  }
  run_unless_empty(call, {1, 1, 1});
}

void form_of_batch_norm_backward(LocalCall& call) {
  const auto axes = axes_that_divide_others(call, placements_of_input(call, "input"), kChannels);
  if (!axes.empty() && call.plan.call.flag("train")) return backward_on_parts(call, axes);
  run_unless_empty(call, call.plan.call.integers("output_mask"));
}

/// The arguments are the part's numbers of samples, channels and groups.
void form_of_group_norm(LocalCall& call) {
  const auto channels = call.plan.call.integer("C");
  const auto mine = part_of_input(call, "input", 1).size;
  call.argument("N") = part_of_input(call, "input", 0).size;
  call.argument("C") = mine;
  if (channels > 0) call.argument("group") = call.plan.call.integer("group") * mine / channels;
  run_operator(call);
}

/// Rows that other ranks hold give zeros here, so that the sum over the ranks is the result.
void form_of_embedding(LocalCall& call) {
  if (axes_that_divide(call, placements_of_input(call, "weight"), 0).empty()) return run_operator(call);
  const auto weight = call.argument("weight").toTensor();
  const auto indices = call.argument("indices").toTensor();
  const auto rows = call.plan.call.info("weight").sizes[0];
  TORCH_CHECK_INDEX(indices.ge(0).logical_and_(indices.lt(rows)).all().item<bool>(),
                    "embedding: an index is not below the ", rows, " rows of the table");
  if (weight.numel() == 0) return call.give(at::zeros(call.local_output_sizes(), weight.options()));
  const auto mine = part_of_input(call, "weight", 0);
  const auto elsewhere = indices.lt(mine.begin).logical_or_(indices.ge(mine.begin + mine.size));
  const auto looked_up = at::embedding(weight, (indices - mine.begin).masked_fill_(elsewhere, 0));
  call.give(looked_up.masked_fill_(elsewhere.unsqueeze(-1), 0));
}

}  // namespace lockstep::global
