// The rules of operators that create or overwrite complete tensors, without reading old values.
#include <lockstep/global/rules/signature.h>

#include <array>

namespace lockstep::global {
namespace {

/// The result has the placements of `self`; values of `self` are not read.
std::vector<Signature> like_self(const OpCall& call) {
  std::vector<Signature> signatures;
  if (call.outputs.empty() || call.tensors.empty()) return signatures;
  if (call.outputs[0].sizes == call.tensors[0].sizes) {
    for (std::int64_t dim = 0; dim < call.outputs[0].dim(); ++dim) {
      Signature signature = replicated(call);
      signature.inputs[0] = Shard(dim);
      signature.outputs[0] = Shard(dim);
      signatures.push_back(std::move(signature));
    }
  }
  for (const ReduceOp op : kPartialOps) {
    Signature signature = replicated(call);
    signature.inputs[0] = Partial(op);
    signatures.push_back(std::move(signature));
  }
  return signatures;
}

/// new_zeros and similar: another shape, always replicated.
std::vector<Signature> beside_self(const OpCall& call) {
  Signature signature = replicated(call);
  for (auto& input : signature.inputs) input = std::nullopt;
  return {std::move(signature)};
}

/// zero_ and similar: with equal values everywhere, every sharding is valid; a partial sum only for zeros.
std::vector<Signature> filled(const OpCall& call) {
  auto signatures = shards_of_elementwise(call);
  signatures.insert(signatures.begin(), replicated(call));
  for (auto& signature : signatures) signature.inputs[0] = std::nullopt;
  if (call.name == "zero") {
    for (const ReduceOp op : kPartialOps) {
      signatures.push_back({.inputs = {std::nullopt}, .outputs = {Partial(op)}});
    }
  }
  return signatures;
}

/// normal_ and similar. Old values are not read; tensor parameters of the distribution are replicated.
std::vector<Signature> drawn(const OpCall& call) {
  if (!call.in_place) return {};
  std::vector<Signature> signatures{replicated(call)};
  for (std::int64_t dim = 0; dim < call.outputs[0].dim(); ++dim) {
    if (call.outputs[0].sizes[static_cast<std::size_t>(dim)] < 2) continue;
    signatures.push_back(replicated(call));
    signatures.back().outputs[0] = Shard(dim);
  }
  for (auto& signature : signatures) signature.inputs[0] = std::nullopt;
  return signatures;
}

std::vector<Sizes> shape_of_written(const OpCall& call) {
  return call.in_place ? std::vector<Sizes>{call.tensors[0].sizes} : std::vector<Sizes>{};
}

/// The result is not a tensor. Tensors of different sizes differ, independent of their placements.
std::vector<Signature> compared(const OpCall& call) {
  if (call.tensors[0].sizes != call.tensors[1].sizes) return {{.inputs = {std::nullopt, std::nullopt}, .outputs = {}}};
  return shards_of(call, call.tensors[0]);
}

std::vector<Sizes> no_tensor(const OpCall&) { return {}; }

/// The result is not a tensor: every rank needs the full input.
std::vector<Signature> seen_whole(const OpCall&) { return {}; }

constexpr std::string_view kLikeSelf = "as their input";

constexpr std::string_view kDrawn = "any dimension, in place; the random numbers are those of one device";

constexpr std::array kRules = std::to_array<Rule>({
    {.op = "empty_like", .signatures = like_self, .supports = kLikeSelf},
    {.op = "zeros_like", .signatures = like_self, .supports = kLikeSelf},
    {.op = "ones_like", .signatures = like_self, .supports = kLikeSelf},
    {.op = "full_like", .signatures = like_self, .supports = kLikeSelf},
    {.op = "new_empty", .signatures = beside_self, .supports = "replicated results"},
    {.op = "new_zeros", .signatures = beside_self, .supports = "replicated results"},
    {.op = "new_ones", .signatures = beside_self, .supports = "replicated results"},
    {.op = "new_full", .signatures = beside_self, .supports = "replicated results"},
    {.op = "new_empty_strided", .signatures = beside_self, .supports = "replicated results"},
    {.op = "normal", .signatures = drawn, .shapes = shape_of_written, .supports = kDrawn},
    {.op = "uniform", .signatures = drawn, .shapes = shape_of_written, .supports = kDrawn},
    {.op = "random", .signatures = drawn, .shapes = shape_of_written, .supports = kDrawn},
    {.op = "bernoulli", .signatures = drawn, .shapes = shape_of_written, .supports = kDrawn},
    {.op = "exponential", .signatures = drawn, .shapes = shape_of_written, .supports = kDrawn},
    {.op = "cauchy", .signatures = drawn, .shapes = shape_of_written, .supports = kDrawn},
    {.op = "log_normal", .signatures = drawn, .shapes = shape_of_written, .supports = kDrawn},
    {.op = "geometric", .signatures = drawn, .shapes = shape_of_written, .supports = kDrawn},
    {.op = "zero", .signatures = filled, .supports = "any dimension, partial"},
    {.op = "_local_scalar_dense",
     .signatures = seen_whole,
     .needs_all = true,
     .supports = "item(): reduced and replicated first"},
    {.op = "equal",
     .signatures = compared,
     .shapes = no_tensor,
     .supports = "any dimension: of the parts, then one number of each rank"},
    {.op = "fill", .signatures = filled, .supports = "any dimension"},
});

}  // namespace

std::span<const Rule> factory_rules() { return kRules; }

}  // namespace lockstep::global
