// The rules of operators that process each plane of a batch of pictures separately: pooling, resampling, padding. Batch
// and channels may be sharded, planes may not.
#include <lockstep/global/rules/placing.h>

#include <array>

namespace lockstep::global {
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

constexpr std::array kRules = std::to_array<Rule>({
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

std::span<const Rule> pooling_rules() { return kRules; }

}  // namespace lockstep::global
