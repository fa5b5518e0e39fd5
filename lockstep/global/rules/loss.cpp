// The rules of losses, forward and backward. Means are divided by the logical count, not by the count of a rank's part.
#include <lockstep/global/rules/signature.h>

#include <algorithm>
#include <array>

namespace lockstep::global {
namespace {

enum Reduction : std::int64_t { kNone = 0, kMean = 1, kSum = 2 };

std::int64_t reduction_of(const OpCall& call) { return call.integer("reduction", kMean); }

// --- Class losses: nll_loss over [C], [N, C] or [N, C, H, W] with targets without C.

std::int64_t class_dim(const OpCall& call) { return call.info("self").dim() > 1 ? 1 : 0; }

/// The dimension of the target for a dimension of the input: the target has no class dimension.
std::int64_t in_target(std::int64_t dim) { return dim > 1 ? dim - 1 : dim; }

std::vector<Sizes> class_loss_shapes(const OpCall& call) {
  return {reduction_of(call) == kNone ? call.info("target").sizes : Sizes{}, Sizes{}};
}

/// The results are the loss and the sum of the weights. If the loss is a mean, the ranks reduce both, so both are
/// replicated; otherwise the sum of the weights is not used.
std::vector<Signature> class_loss(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto classes = class_dim(call);
  const auto reduction = reduction_of(call);
  const Placement summed = reduction == kMean ? Replicate() : Partial();
  const Placement weights = reduction == kSum ? Partial() : Replicate();
  const auto& sizes = call.info("self").sizes;
  for (std::int64_t dim = 0; dim < call.info("self").dim(); ++dim) {
    if (sizes[static_cast<std::size_t>(dim)] < 2) continue;
    if (dim == classes) {
      signatures.push_back(placing(call, {{"self", Shard(dim)}, {"weight", Shard(0)}}, {summed, weights}));
    } else {
      const auto one = Shard(in_target(dim));
      signatures.push_back(
          placing(call, {{"self", Shard(dim)}, {"target", one}}, {reduction == kNone ? one : summed, weights}));
    }
  }
  return signatures;
}

std::vector<Sizes> class_loss_backward_shapes(const OpCall& call) { return {call.info("self").sizes}; }

std::vector<Signature> class_loss_backward(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto classes = class_dim(call);
  const bool one_by_one = reduction_of(call) == kNone;
  const auto total = reduction_of(call) == kMean ? std::optional(Replicate()) : std::nullopt;
  const auto& sizes = call.info("self").sizes;
  for (std::int64_t dim = 0; dim < call.info("self").dim(); ++dim) {
    if (sizes[static_cast<std::size_t>(dim)] < 2) continue;
    if (dim == classes) {
      signatures.push_back(
          placing(call, {{"self", Shard(dim)}, {"weight", Shard(0)}, {"total_weight", total}}, {Shard(dim)}));
    } else {
      const auto one = Shard(in_target(dim));
      signatures.push_back(placing(call,
                                   {{"self", Shard(dim)},
                                    {"target", one},
                                    {"grad_output", one_by_one ? one : Replicate()},
                                    {"total_weight", total}},
                                   {Shard(dim)}));
    }
  }
  return signatures;
}

// --- Elementwise losses: mse_loss and similar, with an optional weight of the same shape or broadcast to it.

std::vector<Sizes> pointwise_loss_shapes(const OpCall& call) {
  return {reduction_of(call) == kNone ? broadcast(call, 0).sizes : Sizes{}};
}

std::vector<Signature> pointwise_loss(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto whole = broadcast(call, 0);
  for (std::int64_t dim = 0; dim < whole.dim(); ++dim) {
    if (whole.sizes[static_cast<std::size_t>(dim)] < 2) continue;
    Signature signature = replicated(call);
    for (std::size_t i = 0; i < call.tensors.size(); ++i) {
      signature.inputs[i] = shard_like_output(call.tensors[i], whole, dim);
    }
    signature.outputs[0] = reduction_of(call) == kNone ? Shard(dim) : Partial();
    signatures.push_back(std::move(signature));
  }
  return signatures;
}

std::vector<Sizes> pointwise_loss_backward_shapes(const OpCall& call) { return {broadcast(call, 1).sizes}; }

/// grad_output is the first input: a scalar, unless the loss was not reduced.
std::vector<Signature> pointwise_loss_backward(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto whole = broadcast(call, 1);
  for (std::int64_t dim = 0; dim < whole.dim(); ++dim) {
    if (whole.sizes[static_cast<std::size_t>(dim)] < 2) continue;
    Signature signature = replicated(call);
    for (std::size_t i = 0; i < call.tensors.size(); ++i) {
      signature.inputs[i] = shard_like_output(call.tensors[i], whole, dim);
    }
    signature.outputs[0] = Shard(dim);
    signatures.push_back(std::move(signature));
  }
  return signatures;
}

// --- Sequence losses: ctc_loss of log_probs [T, N, C] with targets [N, S], or concatenated targets [sum of lengths].
// Lengths are integer lists; if they are tensors, the shapes of the results depend on their values.

bool lengths_are_known(const OpCall& call) { return !call.integers("target_lengths").empty(); }

std::vector<Sizes> sequence_loss_shapes(const OpCall& call) {
  if (!lengths_are_known(call)) return {};
  const auto& sizes = call.info("log_probs").sizes;
  const auto lengths = call.integers("target_lengths");
  const auto longest = *std::max_element(lengths.begin(), lengths.end());
  return {{sizes[1]}, {sizes[1], sizes[0], 2 * longest + 1}};
}

Placement targets_of_part(const OpCall& call) { return call.info("targets").dim() == 2 ? Shard(0) : Replicate(); }

std::vector<Signature> sequence_loss(const OpCall& call) {
  if (!lengths_are_known(call)) return {};
  return {placing(call, {{"log_probs", Shard(1)}, {"targets", targets_of_part(call)}}, {Shard(0), Shard(0)})};
}

std::vector<Sizes> sequence_loss_backward_shapes(const OpCall& call) { return {call.info("log_probs").sizes}; }

std::vector<Signature> sequence_loss_backward(const OpCall& call) {
  if (!lengths_are_known(call)) return {};
  return {placing(call,
                  {{"grad", Shard(0)},
                   {"log_probs", Shard(1)},
                   {"targets", targets_of_part(call)},
                   {"neg_log_likelihood", Shard(0)},
                   {"log_alpha", Shard(0)}},
                  {Shard(1)})};
}

constexpr std::string_view kClasses = "batch, positions, classes";
constexpr std::string_view kPlaces = "any dimension (partial sum where the loss is reduced)";

constexpr Rule of_classes(std::string_view op) {
  return {.op = op, .signatures = class_loss, .shapes = class_loss_shapes, .supports = kClasses};
}
constexpr Rule of_classes_backward(std::string_view op) {
  return {.op = op, .signatures = class_loss_backward, .shapes = class_loss_backward_shapes, .supports = kClasses};
}
constexpr Rule of_places(std::string_view op) {
  return {.op = op, .signatures = pointwise_loss, .shapes = pointwise_loss_shapes, .supports = kPlaces};
}
constexpr Rule of_places_backward(std::string_view op) {
  return {
      .op = op, .signatures = pointwise_loss_backward, .shapes = pointwise_loss_backward_shapes, .supports = kPlaces};
}

constexpr std::array kRules = std::to_array<Rule>({
    of_classes("nll_loss_forward"),
    of_classes("nll_loss2d_forward"),
    of_classes_backward("nll_loss_backward"),
    of_classes_backward("nll_loss2d_backward"),
    of_places("mse_loss"),
    of_places("smooth_l1_loss"),
    of_places("huber_loss"),
    of_places("soft_margin_loss"),
    of_places("binary_cross_entropy"),
    of_places("binary_cross_entropy_with_logits"),
    of_places_backward("mse_loss_backward"),
    of_places_backward("smooth_l1_loss_backward"),
    of_places_backward("huber_loss_backward"),
    of_places_backward("soft_margin_loss_backward"),
    of_places_backward("binary_cross_entropy_backward"),
    {.op = "_ctc_loss",
     .signatures = sequence_loss,
     .shapes = sequence_loss_shapes,
     .has_lengths = true,
     .supports = "batch"},
    {.op = "_ctc_loss_backward",
     .signatures = sequence_loss_backward,
     .shapes = sequence_loss_backward_shapes,
     .has_lengths = true,
     .supports = "batch"},
});

}  // namespace

std::span<const Rule> loss_rules() { return kRules; }

}  // namespace lockstep::global
