// The rules of matrix products with any number of leading dimensions, which need not be merged first: a batch stays
// sharded, evenly or not, together with sharded attention heads.
#include <lockstep/global/rules/elementwise.h>
#include <lockstep/global/rules/placing.h>

#include <algorithm>
#include <array>

namespace lockstep::global {
namespace {

/// Products are linear in each operand, so operands may be partial. A partial operand is reduced first if the result is
/// larger.
void keep_partial_operands(std::vector<Signature>& signatures, const OpCall& call) {
  for (const std::string_view operand : {"self", "other"}) {
    if (call.outputs[0].elements() > call.info(operand).elements()) continue;
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
      signatures.push_back(placing(call, {{operand, Partial(op)}}, {Partial(op)}));
    }
  }
}

/// [.., m, k] x [.., k, n], leading dimensions broadcast.
std::vector<Signature> matmul(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& left = call.info("self");
  const auto& right = call.info("other");
  const auto& output = call.outputs[0];
  if (left.dim() < 2 || right.dim() < 2) return signatures;
  const auto row = output.dim() - 2;
  const auto column = output.dim() - 1;
  for (std::int64_t dim = 0; dim < row; ++dim) {
    if (output.sizes[static_cast<std::size_t>(dim)] < 2) continue;
    signatures.push_back(placing(
        call, {{"self", shard_like_output(left, output, dim)}, {"other", shard_like_output(right, output, dim)}},
        {Shard(dim)}));
  }
  if (output.sizes[static_cast<std::size_t>(row)] > 1) {
    signatures.push_back(placing(call, {{"self", Shard(left.dim() - 2)}}, {Shard(row)}));
  }
  if (output.sizes[static_cast<std::size_t>(column)] > 1) {
    signatures.push_back(placing(call, {{"other", Shard(right.dim() - 1)}}, {Shard(column)}));
  }
  signatures.push_back(
      placing(call, {{"self", Shard(left.dim() - 1)}, {"other", Shard(right.dim() - 2)}}, {Partial()}));
  keep_partial_operands(signatures, call);
  return signatures;
}

std::vector<bool> contracted(const Sizes& dims, std::int64_t of) {
  std::vector<bool> found(static_cast<std::size_t>(of));
  for (const auto dim : dims) found[static_cast<std::size_t>(wrapped_dim(dim, of))] = true;
  return found;
}

/// The result has the dimensions of both operands that are not contracted, in order.
std::vector<Signature> tensordot(const OpCall& call) {
  std::vector<Signature> signatures;
  std::int64_t output_dim = 0;
  const auto keep_free_dims = [&](std::string_view operand, std::string_view dims) {
    const auto& info = call.info(operand);
    const auto summed = contracted(call.integers(dims), info.dim());
    for (std::int64_t dim = 0; dim < info.dim(); ++dim) {
      if (summed[static_cast<std::size_t>(dim)]) continue;
      if (info.sizes[static_cast<std::size_t>(dim)] > 1) {
        signatures.push_back(placing(call, {{operand, Shard(dim)}}, {Shard(output_dim)}));
      }
      ++output_dim;
    }
  };
  keep_free_dims("self", "dims_self");
  keep_free_dims("other", "dims_other");
  const auto left = call.integers("dims_self");
  const auto right = call.integers("dims_other");
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    const auto of_left = wrapped_dim(left[i], call.info("self").dim());
    const auto of_right = wrapped_dim(right[i], call.info("other").dim());
    if (call.info("self").sizes[static_cast<std::size_t>(of_left)] < 2) continue;
    signatures.push_back(placing(call, {{"self", Shard(of_left)}, {"other", Shard(of_right)}}, {Partial()}));
  }
  keep_partial_operands(signatures, call);
  return signatures;
}

constexpr std::array kRules = std::to_array<Rule>({
    {.op = "matmul",
     .signatures = matmul,
     .supports = "leading dimensions, rows, columns, the common dimension (partial sum)"},
    {.op = "tensordot",
     .signatures = tensordot,
     .supports = "dimensions that remain, dimensions that are summed over (partial sum)"},
});

}  // namespace

std::span<const Rule> batched_product_rules() { return kRules; }

}  // namespace lockstep::global
