// The rules of reductions: remaining dimensions may be sharded; over a sharded dimension each rank reduces its part,
// and the result is partial.
#include <lockstep/global/rules/signature.h>

#include <algorithm>
#include <array>

namespace lockstep::global {
namespace {

/// The dimensions that a call reduces: all if none are given.
std::vector<bool> reduced_dims(const OpCall& call, std::int64_t dims) {
  const auto given = call.integers("dim");
  std::vector<bool> reduced(static_cast<std::size_t>(dims), given.empty());
  for (const auto each : given) {
    const auto dim = wrapped_dim(each, dims);
    if (dim >= 0 && dim < dims) reduced[static_cast<std::size_t>(dim)] = true;  // the operator rejects other values
  }
  return reduced;
}

Signature one_to_all(const OpCall& call, const Placement& input, const Placement& output) {
  Signature signature = replicated(call);
  signature.inputs[0] = input;
  std::fill(signature.outputs.begin(), signature.outputs.end(), output);
  return signature;
}

std::vector<Signature> over_kept_dims(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& input = call.tensors[0];
  const auto reduced = reduced_dims(call, input.dim());
  const bool keepdim = call.flag("keepdim");
  std::int64_t output_dim = 0;
  for (std::int64_t dim = 0; dim < input.dim(); ++dim) {
    if (reduced[static_cast<std::size_t>(dim)]) {
      output_dim += keepdim ? 1 : 0;
      continue;
    }
    if (input.sizes[static_cast<std::size_t>(dim)] > 1)
      signatures.push_back(one_to_all(call, Shard(dim), Shard(output_dim)));
    ++output_dim;
  }
  return signatures;
}

/// Sharded dimensions that are reduced: the result is partial with `op`.
void over_reduced_dims(std::vector<Signature>& signatures, const OpCall& call, ReduceOp op, bool empty_parts_are_fine) {
  const auto& input = call.tensors[0];
  const auto reduced = reduced_dims(call, input.dim());
  for (std::int64_t dim = 0; dim < input.dim(); ++dim) {
    const auto size = input.sizes[static_cast<std::size_t>(dim)];
    if (!reduced[static_cast<std::size_t>(dim)] || size < 2) continue;
    if (!empty_parts_are_fine && size < call.all_ranks) continue;
    signatures.push_back(one_to_all(call, Shard(dim), Partial(op)));
  }
}

/// The sizes of a reduction's result.
Sizes reduced_sizes(const OpCall& call) {
  const auto& input = call.tensors[0];
  const auto reduced = reduced_dims(call, input.dim());
  Sizes sizes;
  for (std::size_t dim = 0; dim < reduced.size(); ++dim) {
    if (!reduced[dim]) {
      sizes.push_back(input.sizes[dim]);
    } else if (call.flag("keepdim")) {
      sizes.push_back(1);
    }
  }
  return sizes;
}

std::vector<Sizes> one_reduced(const OpCall& call) { return {reduced_sizes(call)}; }
std::vector<Sizes> two_reduced(const OpCall& call) { return {reduced_sizes(call), reduced_sizes(call)}; }

/// max and min have two results when a dimension is given.
std::vector<Sizes> extreme_shapes(const OpCall& call) {
  return call.has("dim") ? two_reduced(call) : one_reduced(call);
}

/// The local form completes a reduction over sharded dimensions with an all_reduce of the result.
std::vector<Signature> over_all_dims(const OpCall& call) {
  auto signatures = over_kept_dims(call);
  const auto& input = call.tensors[0];
  const auto reduced = reduced_dims(call, input.dim());
  for (std::int64_t dim = 0; dim < input.dim(); ++dim) {
    const auto at = static_cast<std::size_t>(dim);
    if (reduced[at] && input.sizes[at] > 1) signatures.push_back(one_to_all(call, Shard(dim), Replicate()));
  }
  return signatures;
}

std::vector<Signature> sum(const OpCall& call) {
  auto signatures = over_kept_dims(call);
  over_reduced_dims(signatures, call, ReduceOp::sum, true);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean})
    signatures.push_back(one_to_all(call, Partial(op), Partial(op)));
  return signatures;
}

/// `any` is a maximum, `all` a minimum. Empty parts are no special case: their results are the neutral elements.
template <ReduceOp op>
std::vector<Signature> of_truths(const OpCall& call) {
  auto signatures = over_kept_dims(call);
  over_reduced_dims(signatures, call, op, true);
  return signatures;
}

template <ReduceOp op>
std::vector<Signature> extreme(const OpCall& call) {
  auto signatures = over_kept_dims(call);
  const bool with_indices = call.outputs.size() > 1;
  if (with_indices) return signatures;
  over_reduced_dims(signatures, call, op, false);
  signatures.push_back(one_to_all(call, Partial(op), Partial(op)));
  return signatures;
}

/// Operators that need complete rows along their dimension; all results have the input's dimensions.
std::vector<Signature> along_dim(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto dims = call.tensors[0].dim();
  const auto along = wrapped_dim(call.integer("dim", -1), dims);
  for (std::int64_t dim = 0; dim < dims; ++dim) {
    if (dim == along || call.tensors[0].sizes[static_cast<std::size_t>(dim)] < 2) continue;
    Signature signature = replicated(call);
    std::fill(signature.inputs.begin(), signature.inputs.end(), Shard(dim));
    std::fill(signature.outputs.begin(), signature.outputs.end(), Shard(dim));
    signatures.push_back(std::move(signature));
  }
  return signatures;
}

/// Counts are sums over elements. The test of an element is nonlinear, so inputs must not be partial.
std::vector<Signature> sum_of_tests(const OpCall& call) {
  auto signatures = over_kept_dims(call);
  over_reduced_dims(signatures, call, ReduceOp::sum, true);
  return signatures;
}

std::vector<Signature> cumulative_sum(const OpCall& call) {
  auto signatures = along_dim(call);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean})
    signatures.push_back(one_to_all(call, Partial(op), Partial(op)));
  return signatures;
}

std::vector<Sizes> shape_of_first(const OpCall& call) { return {call.tensors[0].sizes}; }
std::vector<Sizes> twice_first(const OpCall& call) { return {call.tensors[0].sizes, call.tensors[0].sizes}; }

constexpr std::string_view kKept = "dimensions that are kept";
constexpr std::string_view kAll = "any dimension";
constexpr std::string_view kEnded = "any dimension; reducing a divided one takes a small all_reduce";
constexpr std::string_view kOthers = "all dimensions but the one it works along";

constexpr std::array kRules = std::to_array<Rule>({
    {.op = "sum", .signatures = sum, .supports = kAll},
    {.op = "mean", .signatures = sum, .supports = kAll},
    {.op = "amax", .signatures = extreme<ReduceOp::max>, .supports = kAll},
    {.op = "amin", .signatures = extreme<ReduceOp::min>, .supports = kAll},
    {.op = "max",
     .signatures = extreme<ReduceOp::max>,
     .shapes = extreme_shapes,
     .supports = "any dimension; with indices, dimensions that are kept"},
    {.op = "min",
     .signatures = extreme<ReduceOp::min>,
     .shapes = extreme_shapes,
     .supports = "any dimension; with indices, dimensions that are kept"},
    {.op = "aminmax", .signatures = over_kept_dims, .supports = kKept},
    {.op = "prod", .signatures = over_kept_dims, .shapes = one_reduced, .supports = kKept},
    {.op = "any", .signatures = of_truths<ReduceOp::max>, .supports = kAll},
    {.op = "all", .signatures = of_truths<ReduceOp::min>, .supports = kAll},
    {.op = "count_nonzero", .signatures = sum_of_tests, .shapes = one_reduced, .supports = kAll},
    {.op = "argmax", .signatures = over_kept_dims, .supports = kKept},
    {.op = "argmin", .signatures = over_kept_dims, .supports = kKept},
    {.op = "logsumexp", .signatures = over_kept_dims, .shapes = one_reduced, .supports = kKept},
    {.op = "var", .signatures = over_all_dims, .shapes = one_reduced, .supports = kEnded},
    {.op = "std", .signatures = over_all_dims, .shapes = one_reduced, .supports = kEnded},
    {.op = "var_mean", .signatures = over_all_dims, .shapes = two_reduced, .supports = kEnded},
    {.op = "std_mean", .signatures = over_all_dims, .shapes = two_reduced, .supports = kEnded},
    {.op = "norm", .signatures = over_all_dims, .shapes = one_reduced, .supports = kEnded},
    {.op = "linalg_vector_norm", .signatures = over_all_dims, .shapes = one_reduced, .supports = kEnded},
    {.op = "kthvalue", .signatures = over_kept_dims, .shapes = two_reduced, .supports = kKept},
    {.op = "mode", .signatures = over_kept_dims, .shapes = two_reduced, .supports = kKept},
    {.op = "median", .signatures = over_kept_dims, .shapes = extreme_shapes, .supports = kKept},
    {.op = "nanmedian", .signatures = over_kept_dims, .shapes = extreme_shapes, .supports = kKept},
    {.op = "cumsum", .signatures = cumulative_sum, .supports = kOthers},
    {.op = "cumprod", .signatures = along_dim, .supports = kOthers},
    {.op = "logcumsumexp", .signatures = along_dim, .shapes = shape_of_first, .supports = kOthers},
    {.op = "_logcumsumexp", .signatures = along_dim, .shapes = shape_of_first, .supports = kOthers},
    {.op = "cummax", .signatures = along_dim, .shapes = twice_first, .supports = kOthers},
    {.op = "cummin", .signatures = along_dim, .shapes = twice_first, .supports = kOthers},
    {.op = "sort", .signatures = along_dim, .supports = kOthers},
    {.op = "topk", .signatures = along_dim, .supports = kOthers},
});

}  // namespace

std::span<const Rule> reduction_rules() { return kRules; }

}  // namespace lockstep::global
