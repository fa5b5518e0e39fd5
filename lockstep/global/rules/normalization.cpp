// The rules of batch, layer and group norm, and of softmax. Batch norm is over the full logical batch, however it is
// sharded. Of softmax and log_softmax, forward and backward, any dimension may be sharded: along the normalized
// dimension, the ranks all-reduce the maximum and the sum.
#include <lockstep/global/rules/signature.h>

#include <array>

namespace lockstep::global {
namespace {

// --- Batch norm. Channels are dimension 1. The running statistics may have any placements: the local form updates them
// in place.

std::vector<Sizes> batch_norm_shapes(const OpCall& call) {
  const auto& input = call.info("input").sizes;
  const Sizes statistics{call.flag("training") ? input[1] : 0};
  return {input, statistics, statistics};
}

std::vector<Signature> batch_norm(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& input = call.info("input");
  const auto per_channel = call.flag("training") ? Shard(0) : Replicate();
  for (std::int64_t dim = 0; dim < input.dim(); ++dim) {
    if (dim == 1 || input.sizes[static_cast<std::size_t>(dim)] < 2) continue;
    signatures.push_back(placing(call,
                                 {{"input", Shard(dim)}, {"running_mean", std::nullopt}, {"running_var", std::nullopt}},
                                 {Shard(dim), Replicate(), Replicate()}));
  }
  signatures.push_back(placing(call,
                               {{"input", Shard(1)},
                                {"weight", Shard(0)},
                                {"bias", Shard(0)},
                                {"running_mean", std::nullopt},
                                {"running_var", std::nullopt}},
                               {Shard(1), per_channel, per_channel}));
  signatures.push_back(placing(call, {{"running_mean", std::nullopt}, {"running_var", std::nullopt}},
                               {Replicate(), Replicate(), Replicate()}));
  return signatures;
}

std::vector<Sizes> batch_norm_backward_shapes(const OpCall& call) {
  const auto& input = call.info("input").sizes;
  return {input, {input[1]}, {input[1]}};
}

/// The saved batch statistics are used in training, the running ones otherwise; unused ones may have any placements.
std::vector<Signature> batch_norm_backward(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& input = call.info("input");
  const bool train = call.flag("train");
  const auto used = [&](bool is_used, const Placement& placement) {
    return is_used ? std::optional(placement) : std::nullopt;
  };
  const auto place = [&](const Placement& picture, const Placement& channel, std::vector<Placement> outputs) {
    signatures.push_back(placing(call,
                                 {{"grad_out", picture},
                                  {"input", picture},
                                  {"weight", channel},
                                  {"running_mean", used(!train, channel)},
                                  {"running_var", used(!train, channel)},
                                  {"save_mean", used(train, channel)},
                                  {"save_invstd", used(train, channel)}},
                                 std::move(outputs)));
  };
  // In training, the ranks reduce the same sums that are the gradients of weight and bias.
  const auto sums = train ? Replicate() : Partial();
  for (std::int64_t dim = 0; dim < input.dim(); ++dim) {
    if (dim != 1 && input.sizes[static_cast<std::size_t>(dim)] > 1) {
      place(Shard(dim), Replicate(), {Shard(dim), sums, sums});
    }
  }
  place(Shard(1), Shard(0), {Shard(1), Shard(0), Shard(0)});
  return signatures;
}

// --- Layer norm: dimensions before the normalized ones may be sharded.

std::int64_t leading_dims(const OpCall& call) {
  return call.info("input").dim() - static_cast<std::int64_t>(call.integers("normalized_shape").size());
}

std::vector<Sizes> layer_norm_shapes(const OpCall& call) {
  const auto& input = call.info("input").sizes;
  Sizes statistics = input;
  for (auto dim = static_cast<std::size_t>(leading_dims(call)); dim < input.size(); ++dim) statistics[dim] = 1;
  return {input, statistics, statistics};
}

std::vector<Signature> layer_norm(const OpCall& call) {
  std::vector<Signature> signatures;
  for (std::int64_t dim = 0; dim < leading_dims(call); ++dim) {
    if (call.info("input").sizes[static_cast<std::size_t>(dim)] < 2) continue;
    signatures.push_back(placing(call, {{"input", Shard(dim)}}, {Shard(dim), Shard(dim), Shard(dim)}));
  }
  return signatures;
}

std::vector<Sizes> layer_norm_backward_shapes(const OpCall& call) {
  const auto& weight = call.integers("normalized_shape");
  return {call.info("input").sizes, weight, weight};
}

std::vector<Signature> layer_norm_backward(const OpCall& call) {
  std::vector<Signature> signatures;
  for (std::int64_t dim = 0; dim < leading_dims(call); ++dim) {
    if (call.info("input").sizes[static_cast<std::size_t>(dim)] < 2) continue;
    const auto rows = Shard(dim);
    signatures.push_back(placing(call, {{"grad_out", rows}, {"input", rows}, {"mean", rows}, {"rstd", rows}},
                                 {rows, Partial(), Partial()}));
  }
  return signatures;
}

// --- Group norm: the batch may be sharded, or groups of channels that divide evenly.

std::vector<Sizes> group_norm_shapes(const OpCall& call) {
  const Sizes statistics{call.integer("N"), call.integer("group")};
  return {call.info("input").sizes, statistics, statistics};
}

std::vector<Signature> group_norm(const OpCall& call) {
  std::vector<Signature> signatures{placing(call, {{"input", Shard(0)}}, {Shard(0), Shard(0), Shard(0)})};
  if (call.divides_evenly(call.integer("group"))) {
    signatures.push_back(
        placing(call, {{"input", Shard(1)}, {"weight", Shard(0)}, {"bias", Shard(0)}}, {Shard(1), Shard(1), Shard(1)}));
  }
  return signatures;
}

std::vector<Sizes> group_norm_backward_shapes(const OpCall& call) {
  const Sizes channels{call.integer("C")};
  return {call.info("input").sizes, channels, channels};
}

std::vector<Signature> group_norm_backward(const OpCall& call) {
  const auto place = [&](const Placement& all, const Placement& weight, std::vector<Placement> outputs) {
    return placing(call, {{"grad_out", all}, {"input", all}, {"mean", all}, {"rstd", all}, {"weight", weight}},
                   std::move(outputs));
  };
  std::vector<Signature> signatures{place(Shard(0), Replicate(), {Shard(0), Partial(), Partial()})};
  if (call.divides_evenly(call.integer("group"))) {
    signatures.push_back(place(Shard(1), Shard(0), {Shard(1), Shard(0), Shard(0)}));
    signatures.back().in_groups = true;
  }
  return signatures;
}

constexpr std::string_view kBatchNorm = "batch and positions (statistics of the whole batch), channels";
constexpr std::string_view kLayerNorm = "dimensions before the normalized ones";
constexpr std::string_view kGroupNorm = "batch; groups that divide evenly";

constexpr std::array kNormalizationRules = std::to_array<Rule>({
    {.op = "native_batch_norm", .signatures = batch_norm, .shapes = batch_norm_shapes, .supports = kBatchNorm},
    {.op = "native_batch_norm_backward",
     .signatures = batch_norm_backward,
     .shapes = batch_norm_backward_shapes,
     .supports = kBatchNorm},
    {.op = "native_layer_norm", .signatures = layer_norm, .shapes = layer_norm_shapes, .supports = kLayerNorm},
    {.op = "native_layer_norm_backward",
     .signatures = layer_norm_backward,
     .shapes = layer_norm_backward_shapes,
     .supports = kLayerNorm},
    {.op = "native_group_norm", .signatures = group_norm, .shapes = group_norm_shapes, .supports = kGroupNorm},
    {.op = "native_group_norm_backward",
     .signatures = group_norm_backward,
     .shapes = group_norm_backward_shapes,
     .supports = kGroupNorm},
});

}  // namespace

std::span<const Rule> normalization_rules() { return kNormalizationRules; }

namespace {

std::vector<Signature> any_dim(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& sizes = call.tensors[0].sizes;
  const auto along = wrapped_dim(call.integer("dim"), call.tensors[0].dim());
  for (std::int64_t dim = 0; dim < call.tensors[0].dim(); ++dim) {
    if (dim != along && sizes[static_cast<std::size_t>(dim)] > 1) signatures.push_back(placing_all(call, Shard(dim)));
  }
  if (!sizes.empty() && sizes[static_cast<std::size_t>(along)] > 1) {
    signatures.push_back(placing_all(call, Shard(along)));
  }
  return signatures;
}

constexpr std::string_view kAny =
    "any dimension; along the normalized one, the largest value and the sum are exchanged";

constexpr std::array kSoftmaxRules = std::to_array<Rule>({
    {.op = "_softmax", .signatures = any_dim, .supports = kAny},
    {.op = "_log_softmax", .signatures = any_dim, .supports = kAny},
    {.op = "_softmax_backward_data", .signatures = any_dim, .supports = kAny},
    {.op = "_log_softmax_backward_data", .signatures = any_dim, .supports = kAny},
});

}  // namespace

std::span<const Rule> softmax_rules() { return kSoftmaxRules; }

}  // namespace lockstep::global
