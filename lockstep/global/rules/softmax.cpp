// The rules of softmax and log_softmax, forward and backward: any dimension may be sharded. Along the normalized
// dimension, the ranks all-reduce the maximum and the sum.
#include <lockstep/global/rules/placing.h>

#include <array>

namespace lockstep::global {
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

constexpr std::array kRules = std::to_array<Rule>({
    {.op = "_softmax", .signatures = any_dim, .supports = kAny},
    {.op = "_log_softmax", .signatures = any_dim, .supports = kAny},
    {.op = "_softmax_backward_data", .signatures = any_dim, .supports = kAny},
    {.op = "_log_softmax_backward_data", .signatures = any_dim, .supports = kAny},
});

}  // namespace

std::span<const Rule> softmax_rules() { return kRules; }

}  // namespace lockstep::global
