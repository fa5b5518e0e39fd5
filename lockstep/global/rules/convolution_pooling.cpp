// The rules of operators on pictures. Of convolutions, the batch, the output channels, the input channels (a partial
// sum), or groups of both may be sharded. Of operators that process each plane separately (pooling, resampling,
// padding), batch and channels may be sharded, planes may not.
#include <lockstep/global/rules/signature.h>

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

constexpr std::array kConvolutionRules = std::to_array<Rule>({
    {.op = "convolution", .signatures = convolution, .shapes = convolution_shapes, .supports = kDivided},
    {.op = "convolution_backward", .signatures = backward, .shapes = backward_shapes, .supports = kDivided},
});

}  // namespace

std::span<const Rule> convolution_rules() { return kConvolutionRules; }

namespace {

/// In all tensors, the first dimensions are batch and channels, and the last `plane_dims` dimensions are the plane.
std::vector<Signature> before_planes(const OpCall& call, std::int64_t plane_dims) {
  std::vector<Signature> signatures;
  const auto& sizes = call.tensors[0].sizes;
  for (std::int64_t dim = 0; dim < call.tensors[0].dim() - plane_dims; ++dim) {
    if (sizes[static_cast<std::size_t>(dim)] > 1) signatures.push_back(placing_all(call, Shard(dim)));
  }
  return signatures;
}

std::vector<Signature> planes(const OpCall& call) { return before_planes(call, 2); }
std::vector<Signature> volumes(const OpCall& call) { return before_planes(call, 3); }
std::vector<Signature> lines(const OpCall& call) { return before_planes(call, 1); }

std::vector<Sizes> adaptive_shape(const OpCall& call) {
  Sizes sizes = call.info("self").sizes;
  const auto given = call.integers("output_size");
  const std::size_t first = sizes.size() - given.size();
  for (std::size_t i = 0; i < given.size(); ++i) sizes[first + i] = given[i];
  return {sizes};
}

std::vector<Sizes> like_self_argument(const OpCall& call) { return {call.info("self").sizes}; }

/// `pad` has two numbers for each dimension, from the last one on; dimensions without padding may be sharded.
std::vector<Signature> padding(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& from = call.tensors[0].sizes;
  const auto pad = call.integers("pad");
  for (std::size_t dim = 0; dim < from.size(); ++dim) {
    const std::size_t at = 2 * (from.size() - 1 - dim);
    const bool padded = at + 1 < pad.size() && (pad[at] != 0 || pad[at + 1] != 0);
    if (!padded && from[dim] > 1) signatures.push_back(placing_all(call, Shard(static_cast<std::int64_t>(dim))));
  }
  return signatures;
}

/// The last dimensions padded on both sides; two numbers for each, from the last one on.
std::vector<Sizes> padded_shape(const OpCall& call) {
  Sizes sizes = call.info("self").sizes;
  const auto padding = call.integers("padding");
  for (std::size_t i = 0; i < padding.size(); ++i) sizes[sizes.size() - 1 - i / 2] += padding[i];
  return {sizes};
}

constexpr std::string_view kBefore = "batch and channels";

constexpr std::array kPoolingRules = std::to_array<Rule>({
    {.op = "max_pool2d_with_indices", .signatures = planes, .supports = kBefore},
    {.op = "max_pool2d_with_indices_backward", .signatures = planes, .supports = kBefore},
    {.op = "max_pool3d_with_indices", .signatures = volumes, .supports = kBefore},
    {.op = "max_pool3d_with_indices_backward",
     .signatures = volumes,
     .shapes = like_self_argument,
     .supports = kBefore},
    {.op = "avg_pool2d", .signatures = planes, .supports = kBefore},
    {.op = "avg_pool2d_backward", .signatures = planes, .supports = kBefore},
    {.op = "avg_pool3d", .signatures = volumes, .supports = kBefore},
    {.op = "avg_pool3d_backward", .signatures = volumes, .supports = kBefore},
    {.op = "_adaptive_avg_pool2d", .signatures = planes, .shapes = adaptive_shape, .supports = kBefore},
    {.op = "_adaptive_avg_pool2d_backward", .signatures = planes, .shapes = like_self_argument, .supports = kBefore},
    {.op = "_adaptive_avg_pool3d", .signatures = volumes, .shapes = adaptive_shape, .supports = kBefore},
    {.op = "_adaptive_avg_pool3d_backward", .signatures = volumes, .shapes = like_self_argument, .supports = kBefore},
    {.op = "adaptive_max_pool2d", .signatures = planes, .supports = kBefore},
    {.op = "adaptive_max_pool2d_backward", .signatures = planes, .supports = kBefore},
    {.op = "upsample_linear1d", .signatures = lines, .supports = kBefore},
    {.op = "upsample_linear1d_backward", .signatures = lines, .supports = kBefore},
    {.op = "upsample_nearest1d", .signatures = lines, .supports = kBefore},
    {.op = "upsample_nearest1d_backward", .signatures = lines, .supports = kBefore},
    {.op = "upsample_nearest2d", .signatures = planes, .supports = kBefore},
    {.op = "upsample_nearest2d_backward", .signatures = planes, .supports = kBefore},
    {.op = "upsample_bilinear2d", .signatures = planes, .supports = kBefore},
    {.op = "upsample_bilinear2d_backward", .signatures = planes, .supports = kBefore},
    {.op = "upsample_bicubic2d", .signatures = planes, .supports = kBefore},
    {.op = "upsample_bicubic2d_backward", .signatures = planes, .supports = kBefore},
    {.op = "reflection_pad1d", .signatures = lines, .shapes = padded_shape, .supports = kBefore},
    {.op = "reflection_pad1d_backward", .signatures = lines, .shapes = like_self_argument, .supports = kBefore},
    {.op = "reflection_pad2d", .signatures = planes, .shapes = padded_shape, .supports = kBefore},
    {.op = "reflection_pad2d_backward", .signatures = planes, .shapes = like_self_argument, .supports = kBefore},
    {.op = "reflection_pad3d", .signatures = volumes, .shapes = padded_shape, .supports = kBefore},
    {.op = "reflection_pad3d_backward", .signatures = volumes, .shapes = like_self_argument, .supports = kBefore},
    {.op = "replication_pad1d", .signatures = lines, .shapes = padded_shape, .supports = kBefore},
    {.op = "replication_pad1d_backward", .signatures = lines, .shapes = like_self_argument, .supports = kBefore},
    {.op = "replication_pad2d", .signatures = planes, .shapes = padded_shape, .supports = kBefore},
    {.op = "replication_pad2d_backward", .signatures = planes, .shapes = like_self_argument, .supports = kBefore},
    {.op = "replication_pad3d", .signatures = volumes, .shapes = padded_shape, .supports = kBefore},
    {.op = "replication_pad3d_backward", .signatures = volumes, .shapes = like_self_argument, .supports = kBefore},
    {.op = "constant_pad_nd", .signatures = padding, .supports = "dimensions that are not padded"},
});

}  // namespace

std::span<const Rule> pooling_rules() { return kPoolingRules; }

}  // namespace lockstep::global
