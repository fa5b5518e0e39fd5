// The layout of gradients in buckets: arithmetic only, the same on every rank.
//
// All buckets of one dtype are consecutive in one buffer, the arena. A bucket contains its gradients, each starting on
// a cache line, and then its tail:
//
//     | gradient | pad | gradient | pad | ... | gave up | stop_votes | used 0 | ... | pad |
//
// The tail is reduced with the gradients in the same all_reduce, so that ranks agree on these values without an
// additional collective (gradient_buckets.h defines the values).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::mirrored {

/// The size of a parameter's gradient. `dtype` is only compared: a bucket has one dtype.
struct GradientSize {
  std::int64_t elements = 0;
  std::int64_t element_bytes = 4;
  int dtype = 0;
};

struct BucketLimits {
  std::int64_t bytes = 25 << 20;       ///< no bucket is larger, unless it holds a single gradient
  std::int64_t first_bytes = 1 << 20;  ///< the same for the first bucket
};

/// All offsets and lengths are in elements of the bucket's dtype.
struct BucketPlan {
  struct Member {
    std::size_t parameter = 0;  ///< index into the sizes
    std::int64_t offset = 0;    ///< from the start of the bucket
  };
  int dtype = 0;
  std::int64_t begin = 0;     ///< offset in the arena of the dtype; on a cache line
  std::int64_t elements = 0;  ///< elements of the whole bucket: gradients, padding, tail
  std::int64_t tail = 0;      ///< offset in the bucket: `gave up`, `stop_votes`, then `used` for each member in order
  std::vector<Member> members;
};

/// Fills buckets in `order`, a permutation of 0 .. sizes.size() - 1: the order in which gradients are expected. The
/// result is sorted by the time when a bucket can be complete, which is its last member's position in `order`.
std::vector<BucketPlan> plan_buckets(const std::vector<GradientSize>& sizes, const std::vector<std::size_t>& order,
                                     const BucketLimits& limits);

struct ArenaSize {
  int dtype = 0;
  std::int64_t elements = 0;
};

/// For each dtype, in the order of first appearance, the size of an arena that is large enough for the plan of any
/// order.
std::vector<ArenaSize> arena_sizes(const std::vector<GradientSize>& sizes, const BucketLimits& limits);

}  // namespace lockstep::mirrored
