// Operators that make or overwrite whole tensors: nothing of what was there is needed.
#include <lockstep/global/rules/elementwise.h>
#include <lockstep/global/rules/signature.h>

#include <array>

namespace lockstep::global {
namespace {

/// The result lies as `self` does, and of `self` only that is looked at.
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

/// new_zeros and the like: another shape, always replicated.
std::vector<Signature> beside_self(const OpCall& call) {
  Signature signature = replicated(call);
  for (auto& input : signature.inputs) input = std::nullopt;
  return {std::move(signature)};
}

/// zero_ and the like: a part of equal numbers is as good as any other; a partial sum stays one only of zeros.
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

/// normal_ and the like. What is there is not looked at; numbers that steer them are whole.
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

/// The answer is no tensor: everybody needs to see all of it.
std::vector<Signature> seen_whole(const OpCall&) { return {}; }

constexpr std::string_view kLikeSelf = "as the tensor they are made like";

constexpr std::string_view kDrawn = "any dimension, in place; the numbers are those of one device";

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
     .supports = "item(): finished and replicated first"},
    {.op = "equal", .signatures = seen_whole, .needs_all = true, .supports = "gathered first"},
    {.op = "fill", .signatures = filled, .supports = "any dimension"},
});

}  // namespace

std::span<const Rule> factory_rules() { return kRules; }

}  // namespace lockstep::global
