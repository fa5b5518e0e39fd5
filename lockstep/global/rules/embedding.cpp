// The rules of embedding lookups: the indices, or the table's rows (the vocabulary) or columns may be sharded.
#include <lockstep/global/rules/placing.h>

#include <array>

namespace lockstep::global {
namespace {

std::vector<Sizes> embedding_shapes(const OpCall& call) {
  Sizes sizes = call.info("indices").sizes;
  sizes.push_back(call.info("weight").sizes[1]);
  return {sizes};
}

std::vector<Signature> embedding(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& indices = call.info("indices");
  for (std::int64_t dim = 0; dim < indices.dim(); ++dim) {
    if (indices.sizes[static_cast<std::size_t>(dim)] > 1) {
      signatures.push_back(placing(call, {{"indices", Shard(dim)}}, {Shard(dim)}));
    }
  }
  signatures.push_back(placing(call, {{"weight", Shard(0)}}, {Partial()}));
  signatures.push_back(placing(call, {{"weight", Shard(1)}}, {Shard(indices.dim())}));
  return signatures;
}

std::vector<Sizes> embedding_backward_shapes(const OpCall& call) {
  return {{call.integer("num_weights"), call.info("grad_output").sizes.back()}};
}

/// The frequencies are those of the logical batch, so the indices are replicated if gradients are scaled by frequency.
std::vector<Signature> embedding_backward(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& indices = call.info("indices");
  for (std::int64_t dim = 0; dim < indices.dim() && !call.flag("scale_grad_by_freq"); ++dim) {
    if (indices.sizes[static_cast<std::size_t>(dim)] > 1) {
      signatures.push_back(placing(call, {{"indices", Shard(dim)}, {"grad_output", Shard(dim)}}, {Partial()}));
    }
  }
  signatures.push_back(placing(call, {{"grad_output", Shard(indices.dim())}}, {Shard(1)}));
  return signatures;
}

constexpr std::array kRules = std::to_array<Rule>({
    {.op = "embedding",
     .signatures = embedding,
     .shapes = embedding_shapes,
     .supports = "indices; rows of the table (partial sum); columns"},
    {.op = "embedding_dense_backward",
     .signatures = embedding_backward,
     .shapes = embedding_backward_shapes,
     .supports = "indices (partial sum); columns of the table"},
});

}  // namespace

std::span<const Rule> embedding_rules() { return kRules; }

}  // namespace lockstep::global
