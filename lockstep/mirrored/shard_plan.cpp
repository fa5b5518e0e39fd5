#include <lockstep/mirrored/cache_line.h>
#include <lockstep/mirrored/shard_plan.h>

#include <algorithm>

namespace lockstep::mirrored {
namespace {

/// Assigns each parameter its place; `shard_elements` are those of whole arenas until they are divided.
ShardPlan place_all(const std::vector<GradientSize>& sizes) {
  ShardPlan plan;
  for (const auto& size : sizes) {
    auto arena =
        std::find_if(plan.arenas.begin(), plan.arenas.end(), [&](auto& each) { return each.dtype == size.dtype; });
    if (arena == plan.arenas.end()) arena = plan.arenas.insert(plan.arenas.end(), {size.dtype, 0});
    plan.places.push_back({static_cast<std::size_t>(arena - plan.arenas.begin()), arena->shard_elements});
    arena->shard_elements += round_up_to_line(size.elements, size.element_bytes);
  }
  return plan;
}

std::int64_t element_bytes_of(const std::vector<GradientSize>& sizes, int dtype) {
  return std::find_if(sizes.begin(), sizes.end(), [&](auto& each) { return each.dtype == dtype; })->element_bytes;
}

}  // namespace

ShardPlan plan_shards(const std::vector<GradientSize>& sizes, int rank, int ranks, std::int64_t piece_bytes) {
  ShardPlan plan = place_all(sizes);
  for (auto& arena : plan.arenas) {
    arena.shard_elements =
        round_up_to_line((arena.shard_elements + ranks - 1) / ranks, element_bytes_of(sizes, arena.dtype));
  }
  for (std::size_t parameter = 0; parameter < sizes.size(); ++parameter) {
    const auto& [arena, offset] = plan.places[parameter];
    const std::int64_t shard = plan.arenas[arena].shard_elements;
    const std::int64_t longest =
        std::max(round_up_to_line(1, sizes[parameter].element_bytes), piece_bytes / sizes[parameter].element_bytes);
    const std::int64_t end = std::min(sizes[parameter].elements, shard * (rank + 1) - offset);
    for (std::int64_t begin = std::max<std::int64_t>(0, shard * rank - offset); begin < end; begin += longest) {
      plan.pieces.push_back({parameter, begin, std::min(longest, end - begin)});
    }
  }
  return plan;
}

}  // namespace lockstep::mirrored
