// The rules of convolutions: the batch, the output channels, the input channels (a partial sum), or groups of both may
// be sharded.
#include <lockstep/global/rules/placing.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace lockstep::global {
namespace {

/// The channel dimensions of the weight: [out, in / groups, ...]; swapped when transposed.
struct WeightDims {
  std::int64_t out;
  std::int64_t in;
};

WeightDims weight_dims(const OpCall& call) {
  return call.flag("transposed") ? WeightDims{.out = 1, .in = 0} : WeightDims{.out = 0, .in = 1};
}

std::int64_t groups_of(const OpCall& call) { return call.integer("groups", 1); }

std::int64_t channels_out(const OpCall& call) {
  const auto& weight = call.info("weight").sizes;
  return call.flag("transposed") ? weight[1] * groups_of(call) : weight[0];
}

std::vector<Sizes> convolution_shapes(const OpCall& call) {
  const auto& input = call.info("input").sizes;
  const auto& weight = call.info("weight").sizes;
  const auto at = [](const Sizes& values, std::size_t i) { return values.size() == 1 ? values[0] : values[i]; };
  const auto stride = call.integers("stride");
  const auto padding = call.integers("padding");
  const auto dilation = call.integers("dilation");
  const auto more = call.integers("output_padding");
  if (std::find(stride.begin(), stride.end(), 0) != stride.end()) throw std::out_of_range("a step of 0");
  Sizes output{input[0], channels_out(call)};
  for (std::size_t i = 0; i + 2 < input.size(); ++i) {
    const auto reach = at(dilation, i) * (weight[i + 2] - 1) + 1;
    output.push_back(call.flag("transposed")
                         ? (input[i + 2] - 1) * at(stride, i) - 2 * at(padding, i) + reach + at(more, i)
                         : (input[i + 2] + 2 * at(padding, i) - reach) / at(stride, i) + 1);
  }
  return {output};
}

std::vector<Signature> convolution(const OpCall& call) {
  const auto weight = weight_dims(call);
  std::vector<Signature> signatures{placing(call, {{"input", Shard(0)}}, {Shard(0)})};
  if (groups_of(call) == 1) {
    signatures.push_back(placing(call, {{"weight", Shard(weight.out)}, {"bias", Shard(0)}}, {Shard(1)}));
    signatures.push_back(placing(call, {{"input", Shard(1)}, {"weight", Shard(weight.in)}}, {Partial()}));
  } else if (call.divides_evenly(groups_of(call))) {
    signatures.push_back(placing(call, {{"input", Shard(1)}, {"weight", Shard(0)}, {"bias", Shard(0)}}, {Shard(1)}));
    signatures.back().in_groups = true;
  }
  return signatures;
}

std::vector<Sizes> backward_shapes(const OpCall& call) {
  return {call.info("input").sizes, call.info("weight").sizes, {channels_out(call)}};
}

/// The results are the gradients of input, weight and bias.
std::vector<Signature> backward(const OpCall& call) {
  const auto weight = weight_dims(call);
  std::vector<Signature> signatures{
      placing(call, {{"grad_output", Shard(0)}, {"input", Shard(0)}}, {Shard(0), Partial(), Partial()})};
  if (groups_of(call) == 1) {
    signatures.push_back(placing(call, {{"grad_output", Shard(1)}, {"weight", Shard(weight.out)}},
                                 {Partial(), Shard(weight.out), Shard(0)}));
    signatures.push_back(
        placing(call, {{"input", Shard(1)}, {"weight", Shard(weight.in)}}, {Shard(1), Shard(weight.in), Replicate()}));
  } else if (call.divides_evenly(groups_of(call))) {
    signatures.push_back(placing(call, {{"grad_output", Shard(1)}, {"input", Shard(1)}, {"weight", Shard(0)}},
                                 {Shard(1), Shard(0), Shard(0)}));
    signatures.back().in_groups = true;
  }
  return signatures;
}

constexpr std::string_view kDivided = "batch; output channels; input channels (partial sum); groups that divide evenly";

constexpr std::array kRules = std::to_array<Rule>({
    {.op = "convolution", .signatures = convolution, .shapes = convolution_shapes, .supports = kDivided},
    {.op = "convolution_backward", .signatures = backward, .shapes = backward_shapes, .supports = kDivided},
});

}  // namespace

std::span<const Rule> convolution_rules() { return kRules; }

}  // namespace lockstep::global
