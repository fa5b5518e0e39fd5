// Local forms of losses: local sums, divided by the logical count.
#include <lockstep/global/local/across_ranks.h>
#include <lockstep/global/rules/placing.h>

#include <ATen/ATen.h>

namespace lockstep::global {
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

}  // namespace lockstep::global
