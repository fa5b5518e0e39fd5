// The rules of elementwise operators: each element of the result depends only on the same element of the inputs, with
// broadcasting.
#include <lockstep/global/rules/signature.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace lockstep::global {

std::optional<Placement> shard_like_output(const TensorInfo& input, const TensorInfo& output, std::int64_t output_dim) {
  const std::int64_t dim = output_dim - (output.dim() - input.dim());
  if (dim < 0 || input.sizes[static_cast<std::size_t>(dim)] == 1) return Replicate();
  return Shard(dim);
}

std::vector<Signature> shards_of(const OpCall& call, const TensorInfo& shape) {
  std::vector<Signature> signatures;
  for (std::int64_t dim = 0; dim < shape.dim(); ++dim) {
    if (shape.sizes[static_cast<std::size_t>(dim)] == 1) continue;
    Signature signature;
    for (const auto& tensor : call.tensors) signature.inputs.push_back(shard_like_output(tensor, shape, dim));
    signature.outputs.assign(call.outputs.size(), Shard(dim));
    signatures.push_back(std::move(signature));
  }
  return signatures;
}

std::vector<Signature> shards_of_elementwise(const OpCall& call) {
  return call.outputs.empty() ? std::vector<Signature>{} : shards_of(call, call.outputs.front());
}

std::vector<Sizes> broadcast_shape(const OpCall& call) {
  return {call.tensors.empty() ? Sizes{} : broadcast(call).sizes};
}

namespace {

std::vector<Sizes> twice_self(const OpCall& call) { return {call.tensors[0].sizes, call.tensors[0].sizes}; }

constexpr std::array kLinear{ReduceOp::sum, ReduceOp::mean};

Signature partial_in(const OpCall& call, std::span<const std::size_t> partial_inputs, ReduceOp op) {
  Signature signature = replicated(call);
  for (const std::size_t index : partial_inputs) signature.inputs[index] = Partial(op);
  for (auto& output : signature.outputs) output = Partial(op);
  return signature;
}

std::vector<Signature> nonlinear(const OpCall& call) { return shards_of_elementwise(call); }

/// f(a + b) = f(a) + f(b): scaling by a number, or the identity. One tensor.
std::vector<Signature> scaling(const OpCall& call) {
  auto signatures = shards_of_elementwise(call);
  for (const ReduceOp op : kLinear) signatures.push_back(partial_in(call, std::array<std::size_t, 1>{0}, op));
  return signatures;
}

/// Copies: every placement is preserved.
std::vector<Signature> copying(const OpCall& call) {
  auto signatures = shards_of_elementwise(call);
  for (const ReduceOp op : kPartialOps) signatures.push_back(partial_in(call, std::array<std::size_t, 1>{0}, op));
  return signatures;
}

/// Whether a dtype conversion is exact. If it rounds, the summands of a partial sum must not be rounded one by one.
bool is_exact(const TensorInfo& from, const TensorInfo& to) {
  const bool alike = from.floating == to.floating && from.complex == to.complex && from.truth == to.truth;
  return alike && to.element_bytes >= from.element_bytes;
}

std::vector<Signature> casting(const OpCall& call) {
  return is_exact(call.tensors.front(), call.outputs.front()) ? copying(call) : shards_of_elementwise(call);
}

bool same_shape(const OpCall& call, std::size_t input) {
  return call.tensors[input].sizes == call.outputs.front().sizes;
}

/// a + number * b. Partial only if both are tensors of the result's shape: a number would be added to every summand of
/// a partial sum.
std::vector<Signature> adding(const OpCall& call) {
  auto signatures = shards_of_elementwise(call);
  if (call.tensors.size() == 2 && same_shape(call, 0) && same_shape(call, 1)) {
    for (const ReduceOp op : kLinear) signatures.push_back(partial_in(call, std::array<std::size_t, 2>{0, 1}, op));
  }
  return signatures;
}

/// complex(a, b) = a + ib.
std::vector<Signature> joining(const OpCall& call) {
  auto signatures = shards_of_elementwise(call);
  if (same_shape(call, 0) && same_shape(call, 1)) {
    for (const ReduceOp op : kLinear) signatures.push_back(partial_in(call, std::array<std::size_t, 2>{0, 1}, op));
  }
  return signatures;
}

/// view_as_real and back: the real and imaginary part are a last dimension, which is not sharded.
std::vector<Signature> real_and_imaginary(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto dims = std::min(call.tensors[0].dim(), call.outputs[0].dim());
  for (std::int64_t dim = 0; dim < dims; ++dim) {
    if (call.outputs[0].sizes[static_cast<std::size_t>(dim)] == 1) continue;
    signatures.push_back({.inputs = {Shard(dim)}, .outputs = {Shard(dim)}});
  }
  for (const ReduceOp op : kLinear) signatures.push_back(partial_in(call, std::array<std::size_t, 1>{0}, op));
  return signatures;
}

/// a * b, where b may be a number.
std::vector<Signature> multiplying(const OpCall& call) {
  auto signatures = shards_of_elementwise(call);
  for (std::size_t input = 0; input < call.tensors.size(); ++input) {
    for (const ReduceOp op : kLinear) signatures.push_back(partial_in(call, std::array<std::size_t, 1>{input}, op));
  }
  return signatures;
}

/// prelu(self, weight) and its derivative: a slope for each channel (dimension 1), or one for all. The gradient of
/// slopes is a sum over everything else.
std::vector<Signature> with_slopes(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& self = call.info("self");
  const auto slopes = call.tensor("weight");
  for (std::int64_t dim = 0; dim < self.dim(); ++dim) {
    if (self.sizes[static_cast<std::size_t>(dim)] < 2) continue;
    const bool of_channels = dim == 1 && call.tensors[slopes].elements() > 1;
    Signature signature = placing_all(call, Shard(dim));
    signature.inputs[slopes] = of_channels ? Shard(0) : Replicate();
    if (call.outputs.size() > 1) signature.outputs[1] = of_channels ? Shard(0) : Partial();
    signatures.push_back(std::move(signature));
  }
  return signatures;
}

std::vector<Sizes> like_self(const OpCall& call) { return {call.info("self").sizes}; }
std::vector<Sizes> like_self_and_slopes(const OpCall& call) {
  return {call.info("self").sizes, call.info("weight").sizes};
}
std::vector<Sizes> like_self_twice(const OpCall& call) { return {call.info("self").sizes, call.info("self").sizes}; }

/// a / b, where b may be a number.
std::vector<Signature> dividing(const OpCall& call) {
  if (call.has("rounding_mode")) return shards_of_elementwise(call);
  return scaling(call);
}

/// copy_(self, src): the result is src in self's shape. Partial sums only if the dtype conversion is exact.
std::vector<Signature> copy_in(const OpCall& call) {
  if (broadcast(call).sizes != call.tensors[0].sizes) throw std::out_of_range("a source that does not fit");
  auto signatures = shards_of_elementwise(call);
  for (auto& signature : signatures) signature.inputs[0] = std::nullopt;
  if (!same_shape(call, 1) || !is_exact(call.tensors[1], call.tensors[0])) return signatures;
  for (const ReduceOp op : kPartialOps) {
    Signature signature{.inputs = {std::nullopt, Partial(op)}, .outputs = {Partial(op)}};
    signatures.push_back(std::move(signature));
  }
  return signatures;
}

constexpr std::string_view kAnyDim = "any dimension";
constexpr std::string_view kAnyDimAndSums = "any dimension; partial sums stay partial";

/// All other elementwise operators, which are nonlinear.
constexpr std::string_view kNonlinear =
    "abs acos acosh addcdiv addcmul angle asin asinh atan atan2 atanh bitwise_and bitwise_left_shift "
    "bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp clamp_max clamp_min copysign cos "
    "cosh deg2rad digamma elu elu_backward eq erf erfc erfinv exp exp2 expm1 floor floor_divide fmax fmin fmod "
    "frac gcd ge gelu gelu_backward gt hardshrink hardshrink_backward hardsigmoid hardsigmoid_backward "
    "hardswish hardswish_backward hardtanh hardtanh_backward heaviside hypot i0 igamma igammac isfinite isinf "
    "isnan isneginf isposinf lcm le leaky_relu leaky_relu_backward lerp lgamma log log10 log1p log2 "
    "log_sigmoid_backward logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit "
    "logit_backward lt masked_fill maximum minimum mish mish_backward nan_to_num ne nextafter polar polygamma pow "
    "rad2deg reciprocal relu remainder round rrelu_with_noise_backward rsqrt selu sgn sigmoid sigmoid_backward sign "
    "signbit silu "
    "silu_backward sin sinc sinh softplus softplus_backward softshrink softshrink_backward special_entr "
    "special_erfcx special_i0e special_i1 special_i1e special_log_ndtr special_ndtri special_xlog1py "
    "special_zeta sqrt square tan tanh tanh_backward threshold threshold_backward trunc where xlogy";

constexpr std::array kLinearRules = std::to_array<Rule>({
    {.op = "add", .signatures = adding, .supports = kAnyDimAndSums},
    {.op = "sub", .signatures = adding, .supports = kAnyDimAndSums},
    {.op = "rsub", .signatures = adding, .supports = kAnyDimAndSums},
    {.op = "mul", .signatures = multiplying, .supports = kAnyDimAndSums},
    {.op = "div", .signatures = dividing, .supports = kAnyDimAndSums},
    {.op = "neg", .signatures = scaling, .supports = kAnyDimAndSums},
    {.op = "_neg_view", .signatures = scaling, .supports = kAnyDimAndSums},
    {.op = "_conj", .signatures = scaling, .supports = kAnyDimAndSums},
    {.op = "_conj_physical", .signatures = scaling, .supports = kAnyDimAndSums},
    {.op = "conj_physical", .signatures = scaling, .supports = kAnyDimAndSums},
    {.op = "complex", .signatures = joining, .supports = kAnyDimAndSums},
    {.op = "view_as_real", .signatures = real_and_imaginary, .supports = kAnyDimAndSums},
    {.op = "view_as_complex", .signatures = real_and_imaginary, .supports = kAnyDimAndSums},
    {.op = "clone", .signatures = copying, .supports = kAnyDimAndSums},
    {.op = "contiguous", .signatures = copying, .supports = kAnyDimAndSums},
    {.op = "alias", .signatures = copying, .supports = kAnyDimAndSums},
    {.op = "detach", .signatures = copying, .supports = kAnyDimAndSums},
    {.op = "positive", .signatures = copying, .supports = kAnyDimAndSums},
    {.op = "_to_copy", .signatures = casting, .supports = kAnyDimAndSums},
    {.op = "copy", .signatures = copy_in, .supports = kAnyDimAndSums},
    {.op = "prelu", .signatures = with_slopes, .shapes = like_self, .supports = kAnyDim},
    {.op = "prelu_backward", .signatures = with_slopes, .shapes = like_self_and_slopes, .supports = kAnyDim},
    {.op = "_prelu_kernel", .signatures = nonlinear, .shapes = like_self, .supports = kAnyDim},
    {.op = "_prelu_kernel_backward", .signatures = nonlinear, .shapes = like_self_twice, .supports = kAnyDim},
    {.op = "log_sigmoid_forward", .signatures = nonlinear, .shapes = twice_self, .supports = kAnyDim},
});

template <typename Use>
void for_each_word(std::string_view text, Use use) {
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    if (end > 0) use(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

std::span<const Rule> elementwise_rules() {
  static const auto rules = [] {
    std::vector<Rule> all(kLinearRules.begin(), kLinearRules.end());
    for_each_word(kNonlinear, [&](std::string_view op) {
      all.push_back({.op = op, .signatures = nonlinear, .shapes = broadcast_shape, .supports = kAnyDim});
    });
    return all;
  }();
  return rules;
}

}  // namespace lockstep::global
