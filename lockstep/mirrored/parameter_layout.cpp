// Bucket plans in order of gradients, the sizes of their arenas, and equal shards of arenas cut into pieces.
#include <lockstep/mirrored/parameter_layout.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep::mirrored {
namespace {

/// A bucket that is being filled.
struct OpenBucket {
  BucketPlan plan;
  std::int64_t element_bytes = 0;
  std::size_t last_position = 0;  ///< of its last member in the order

  std::int64_t bytes() const { return plan.elements * element_bytes; }
};

void add(OpenBucket& bucket, std::size_t parameter, const GradientSize& size, std::size_t position) {
  bucket.plan.members.push_back({parameter, bucket.plan.elements});
  bucket.plan.elements += round_up_to_line(size.elements, size.element_bytes);
  bucket.last_position = position;
}

void append_tail(OpenBucket& bucket) {
  bucket.plan.tail = bucket.plan.elements;
  const auto length = kMarks + static_cast<std::int64_t>(bucket.plan.members.size());
  bucket.plan.elements += round_up_to_line(length, bucket.element_bytes);
}

/// Assigns each bucket its offset in the arena of its dtype.
std::vector<BucketPlan> place(std::vector<OpenBucket> buckets) {
  std::vector<ArenaSize> used;
  std::vector<BucketPlan> plans;
  for (auto& bucket : buckets) {
    append_tail(bucket);
    auto arena = std::find_if(used.begin(), used.end(), [&](auto& each) { return each.dtype == bucket.plan.dtype; });
    if (arena == used.end()) arena = used.insert(used.end(), {bucket.plan.dtype, 0});
    bucket.plan.begin = arena->elements;
    arena->elements += bucket.plan.elements;
    plans.push_back(std::move(bucket.plan));
  }
  return plans;
}

}  // namespace

std::vector<BucketPlan> plan_buckets(const std::vector<GradientSize>& sizes, const std::vector<std::size_t>& order,
                                     const BucketLimits& limits) {
  std::vector<OpenBucket> open;  // at most one for each dtype
  std::vector<OpenBucket> closed;
  for (std::size_t position = 0; position < order.size(); ++position) {
    const std::size_t parameter = order[position];
    const GradientSize& size = sizes[parameter];
    auto bucket = std::find_if(open.begin(), open.end(), [&](auto& each) { return each.plan.dtype == size.dtype; });
    if (bucket != open.end()) {
      const std::int64_t limit = closed.empty() ? limits.first_bytes : limits.bytes;
      if (bucket->bytes() + round_up_to_line(size.elements, size.element_bytes) * size.element_bytes > limit) {
        closed.push_back(std::move(*bucket));
        open.erase(bucket);
        bucket = open.end();
      }
    }
    if (bucket == open.end()) {
      bucket = open.insert(open.end(), {{.dtype = size.dtype, .members = {}}, size.element_bytes, position});
    }
    add(*bucket, parameter, size, position);
  }
  std::move(open.begin(), open.end(), std::back_inserter(closed));
  std::sort(closed.begin(), closed.end(), [](auto& a, auto& b) { return a.last_position < b.last_position; });
  return place(std::move(closed));
}

std::vector<ArenaSize> arena_sizes(const std::vector<GradientSize>& sizes, const BucketLimits& limits) {
  struct Total {
    ArenaSize arena;
    std::int64_t element_bytes = 0;
    std::int64_t count = 0;
  };
  std::vector<Total> totals;
  for (const auto& size : sizes) {
    auto total = std::find_if(totals.begin(), totals.end(), [&](auto& each) { return each.arena.dtype == size.dtype; });
    if (total == totals.end()) total = totals.insert(totals.end(), {{size.dtype, 0}, size.element_bytes, 0});
    total->arena.elements += round_up_to_line(size.elements, size.element_bytes);
    ++total->count;
  }
  std::vector<ArenaSize> arenas;
  for (const auto& total : totals) {
    // Two adjacent buckets together exceed the limit, otherwise they would be one; the first has a separate limit,
    // the last may be nearly empty. Every bucket has members.
    const std::int64_t full = 2 * (total.arena.elements * total.element_bytes / limits.bytes) + 3;
    const std::int64_t buckets = std::min(total.count, full);
    const std::int64_t tails = total.count + buckets * (kMarks + line_elements(total.element_bytes));
    arenas.push_back({total.arena.dtype, total.arena.elements + tails});
  }
  return arenas;
}

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
