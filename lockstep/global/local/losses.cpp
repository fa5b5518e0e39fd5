// Local forms of losses and of softmax, whose classes or batch may be sharded: local sums, divided by the logical
// count.
#include <lockstep/base/error.h>
#include <lockstep/global/local/local_call.h>
#include <lockstep/global/rules/signature.h>

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <numeric>

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

namespace {

constexpr std::int64_t kMeanReduction = 1;
constexpr std::int64_t kSumReduction = 2;

std::int64_t dim_of_classes(const LocalCall& call) { return call.plan.call.info("self").dim() > 1 ? 1 : 0; }

/// If classes are sharded, shifts the targets by this rank's first class, and ignores targets of other ranks.
void keep_own_targets(LocalCall& call) {
  const auto dim = dim_of_classes(call);
  if (axes_that_divide(call, placements_of_input(call, "self"), dim).empty()) return;
  const auto target = call.argument("target").toTensor().to(at::kLong);
  const auto ignored = target.eq(call.argument("ignore_index").toInt());
  const auto mine = part_of_input(call, "self", dim);
  const auto here = target.ge(mine.begin).logical_and_(target.lt(mine.begin + mine.size));
  constexpr std::int64_t kElsewhere = -1;
  call.argument("target") = at::where(here.logical_and_(ignored.logical_not()), target - mine.begin, kElsewhere);
  call.argument("ignore_index") = kElsewhere;
}

/// Checks the range of targets, which the operator cannot check on its part of the classes.
void check_targets(const LocalCall& call) {
  const auto dim = dim_of_classes(call);
  if (axes_that_divide(call, placements_of_input(call, "self"), dim).empty()) return;
  const auto target = call.argument("target").toTensor();
  const auto classes = call.plan.call.info("self").sizes[static_cast<std::size_t>(dim)];
  const auto fine =
      target.ge(0).logical_and_(target.lt(classes)).logical_or_(target.eq(call.argument("ignore_index").toInt()));
  TORCH_CHECK_INDEX(fine.all().item<bool>(), call.plan.call.name, ": a target is neither one of the ", classes,
                    " classes nor ignore_index");
}

Axes axes_of_shards(const LocalCall& call, std::string_view argument) {
  Axes axes;
  const auto& placements = placements_of_input(call, argument);
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_shard() && call.mesh.sizes()[axis] > 1) axes.push_back(axis);
  }
  return axes;
}

void give_two(LocalCall& call, const at::Tensor& first, const at::Tensor& second) {
  call.stack.clear();
  call.stack.emplace_back(first);
  call.stack.emplace_back(second);
}

/// A contiguous argument, which libtorch requires: the full tensor is contiguous, but a part may not be.
at::Tensor in_order(const LocalCall& call, std::string_view argument) {
  auto part = call.argument(argument).toTensor().contiguous();
  call.argument(argument) = part;
  return part;
}

}  // namespace

void form_of_class_loss(LocalCall& call) {
  const auto self = in_order(call, "self");
  const auto axes = axes_of_shards(call, "self");
  if (axes.empty()) return run_operator(call);
  const auto reduction = call.plan.call.integer("reduction", kMeanReduction);
  check_targets(call);
  keep_own_targets(call);
  if (self.numel() == 0) {
    give_two(call, at::zeros(call.local_output_sizes(0), self.options()), at::zeros({}, self.options()));
  } else {
    if (reduction == kMeanReduction) call.argument("reduction") = kSumReduction;
    run_operator(call);
  }
  if (reduction != kMeanReduction) return;
  auto sums = at::stack({call.stack[0].toTensor(), call.stack[1].toTensor()});
  reduce_over(call, axes, sums);
  give_two(call, sums[0] / sums[1], sums[1].clone());
}

void form_of_class_loss_backward(LocalCall& call) {
  const auto self = in_order(call, "self");
  keep_own_targets(call);
  if (self.numel() == 0) return call.give(at::zeros_like(self));
  run_operator(call);
}

void form_of_pointwise_loss(LocalCall& call) {
  const auto reduction = call.plan.call.integer("reduction", kMeanReduction);
  std::int64_t places = 1;
  if (reduction == kMeanReduction) {
    places = broadcast(call.plan.call, call.plan.call.has("grad_output") ? 1 : 0).elements();
    call.argument("reduction") = kSumReduction;
  }
  run_operator(call);
  if (reduction == kMeanReduction) call.give(call.stack[0].toTensor().div_(static_cast<double>(places)));
}

namespace {

constexpr std::int64_t kBatch = 1;

std::int64_t sum_of(const std::vector<std::int64_t>& values, const Part& part) {
  const auto first = values.begin() + part.begin;
  return std::accumulate(first, first + part.size, std::int64_t{0});
}

void keep_part(LocalCall& call, std::string_view lengths, const Part& part) {
  const auto all = call.argument(lengths).toIntVector();
  const auto first = all.begin() + part.begin;
  call.argument(lengths) = std::vector<std::int64_t>(first, first + part.size);
}

/// Checks the lengths of all sequences, which every rank has, so that an error is thrown on all ranks.
void check_lengths(const LocalCall& call, const at::Tensor& targets) {
  const auto steps = call.plan.call.info("log_probs").sizes[0];
  const auto inputs = call.argument("input_lengths").toIntVector();
  const auto lengths = call.argument("target_lengths").toIntVector();
  const auto batch = static_cast<std::size_t>(call.plan.call.info("log_probs").sizes[kBatch]);
  TORCH_CHECK(inputs.size() == batch, "ctc_loss: ", inputs.size(), " input_lengths for a batch of ", batch);
  TORCH_CHECK(lengths.size() == batch, "ctc_loss: ", lengths.size(), " target_lengths for a batch of ", batch);
  for (std::size_t i = 0; i < batch; ++i) {
    TORCH_CHECK(inputs[i] >= 0 && inputs[i] <= steps, "ctc_loss: input_lengths[", i, "] is ", inputs[i],
                ", and log_probs have ", steps, " steps");
    TORCH_CHECK(lengths[i] >= 0 && (targets.dim() == 1 || lengths[i] <= targets.size(1)), "ctc_loss: target_lengths[",
                i, "] is ", lengths[i], ", and the rows of targets are not that long");
  }
  if (targets.dim() == 1) {
    const auto all = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    TORCH_CHECK(all == targets.size(0), "ctc_loss: target_lengths add up to ", all, ", and there are ", targets.size(0),
                " targets");
  }
}

/// Restricts the arguments to this rank's sequences. Returns whether there are any.
bool keep_own_sequences(LocalCall& call) {
  if (axes_that_divide(call, placements_of_input(call, "log_probs"), kBatch).empty()) return true;
  const auto part = part_of_input(call, "log_probs", kBatch);
  const auto targets = call.argument("targets").toTensor();
  check_lengths(call, targets);
  if (targets.dim() == 1) {  // concatenated targets
    const auto lengths = call.argument("target_lengths").toIntVector();
    call.argument("targets") =
        targets.narrow(0, sum_of(lengths, {.begin = 0, .size = part.begin}), sum_of(lengths, part));
  }
  keep_part(call, "input_lengths", part);
  keep_part(call, "target_lengths", part);
  return part.size > 0;
}

}  // namespace

void form_of_sequence_loss(LocalCall& call) {
  if (call.plan.outputs.empty()) return run_operator(call);
  if (!keep_own_sequences(call)) {
    const auto options = call.argument("log_probs").toTensor().options();
    const auto none = at::zeros(call.local_output_sizes(0), options);
    const auto no_steps = at::zeros(call.local_output_sizes(1), options);
    call.stack.clear();
    for (const auto& each : {none, no_steps}) call.stack.emplace_back(each);
    return;
  }
  run_operator(call);
  // The result's size is given by the longest target of all ranks.
  const auto steps = call.stack[1].toTensor();
  const auto missing = call.plan.outputs[1].shape.sizes[2] - steps.size(2);
  if (missing > 0) call.stack[1] = at::constant_pad_nd(steps, {0, missing}, -INFINITY);
}

void form_of_sequence_loss_backward(LocalCall& call) {
  if (call.plan.outputs.empty() || keep_own_sequences(call)) return run_operator(call);
  call.give(at::zeros_like(call.argument("log_probs").toTensor()));
}

}  // namespace lockstep::global
