// Batch norm of parts: each rank looks at what it has, and the statistics are those of the logical batch.
#include <lockstep/global/local/across_ranks.h>
#include <lockstep/global/local/batch_norm_gradient.h>
#include <lockstep/global/redistribute.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace lockstep::global {
namespace {

constexpr std::int64_t kChannels = 1;

at::Tensor optional_tensor(const LocalCall& call, std::string_view name) {
  const auto& value = call.argument(name);
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

/// How one number for each channel lies beside the input: divided as its channels are.
Placements like_channels(const Placements& input) {
  Placements placements(input.size());
  for (std::size_t axis = 0; axis < input.size(); ++axis) {
    if (input[axis].is_shard(kChannels)) placements[axis] = Shard(0);
  }
  return placements;
}

/// Number of values, their mean, and the sum of the squares of their distances to it, for each channel.
struct Moments {
  at::Tensor count;
  at::Tensor mean;
  at::Tensor squares;
};

Moments moments_of(const at::Tensor& pictures) {
  const auto channels = pictures.size(kChannels);
  const auto options = pictures.options().memory_format(c10::nullopt);
  if (pictures.numel() == 0) {
    const auto none = at::zeros({channels}, options);
    return {.count = none, .mean = none, .squares = none};
  }
  const auto values = static_cast<double>(pictures.numel()) / static_cast<double>(channels);
  const auto [mean, variance] = at::batch_norm_update_stats(pictures, {}, {}, 0.0);
  return {.count = at::full({channels}, values, options), .mean = mean, .squares = variance * values};
}

/// Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance": moments of parts make those of the
/// whole without the cancellation of a sum of squares.
Moments together(const LocalCall& call, std::size_t axis, const Moments& mine) {
  const auto all = gather_along(call, axis, at::stack({mine.count, mine.mean, mine.squares})).to(at::kDouble);
  const auto counts = all.select(1, 0);
  const auto means = all.select(1, 1);
  const auto count = counts.sum(0);
  const auto mean = (counts * means).sum(0) / count.clamp_min(1);  // there may be nothing along this axis
  const auto squares = all.select(1, 2).sum(0) + (counts * (means - mean).square()).sum(0);
  const auto dtype = mine.mean.scalar_type();
  return {.count = count.to(dtype), .mean = mean.to(dtype), .squares = squares.to(dtype)};
}

/// running = (1 - momentum) * running + momentum * now, in place, however it lies.
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

/// Running statistics as the input's channels are divided.
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

/// The operator itself, which cannot do without a sample or a channel.
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
  auto moments = moments_of(input);
  for (const auto axis : axes) moments = together(call, axis, moments);
  const auto variance = moments.squares / moments.count;
  update(call, "running_mean", moments.mean);
  update(call, "running_var", moments.squares / (moments.count - 1));

  const auto eps = call.argument("eps").toDouble();
  const auto output = input.numel() == 0
                          ? at::empty_like(input)
                          : std::get<0>(at::native_batch_norm(input, optional_tensor(call, "weight"),
                                                              optional_tensor(call, "bias"), moments.mean, variance,
                                                              /*training=*/false, /*momentum=*/0.0, eps));
  give_three(call, output, moments.mean, (variance + eps).rsqrt());
}

/// For each channel of a part the sums of gradient times normalized input and of the gradient: what libtorch's kernel
/// calls the gradients of weight and bias where statistics are given.
std::pair<at::Tensor, at::Tensor> sums_of_part(const at::Tensor& gradient, const at::Tensor& input,
                                               const at::Tensor& weight, const at::Tensor& mean,
                                               const at::Tensor& scale) {
  if (input.numel() == 0) return {at::zeros_like(mean), at::zeros_like(mean)};
  const auto found = at::native_batch_norm_backward(gradient, input, weight, mean, scale.square().reciprocal(), {}, {},
                                                    /*train=*/false, /*eps=*/0.0, {false, true, true});
  return {std::get<1>(found), std::get<2>(found)};
}

/// The gradient of a batch norm in training; sums over the batch are made by all ranks.
void backward_on_parts(LocalCall& call, const Axes& axes) {
  const auto input = call.argument("input").toTensor();
  const auto gradient = call.argument("grad_out").toTensor();
  const auto weight = optional_tensor(call, "weight");
  const auto mean = call.argument("save_mean").toTensor();
  const auto scale = call.argument("save_invstd").toTensor();
  const auto wanted = call.plan.call.integers("output_mask");
  const auto& whole = call.plan.call.info("input");
  const auto values = static_cast<double>(whole.elements()) / static_cast<double>(whole.sizes[kChannels]);

  const auto [with_input, alone] = sums_of_part(gradient, input, weight, mean, scale);
  auto sums = at::stack({with_input, alone});
  reduce_over(call, axes, sums);

  at::Tensor of_input;
  if (wanted[0] != 0) {
    of_input = gradient_of_input(gradient, input,
                                 {.mean = mean,
                                  .factor = weight.defined() ? weight * scale : scale,
                                  .mean_gradient = sums[1] / values,
                                  .slope = scale * sums[0] / values});
  }
  give_three(call, of_input, wanted[1] != 0 ? sums[0].clone() : at::Tensor(),
             wanted[2] != 0 ? sums[1].clone() : at::Tensor());
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

}  // namespace lockstep::global
