// The layout of gradients in buckets: arithmetic only, the same on every rank.
//
// All buckets of one dtype lie one after the other in one piece of memory, the arena. A bucket holds its gradients,
// each starting on a cache line, and then its tail:
//
//     | gradient | pad | gradient | pad | ... | gave up | stop_votes | used 0 | ... | pad |
//
// The tail travels with the gradients in the same all_reduce, so that ranks learn what they must agree on without a
// collective of its own (gradient_buckets.h says what the numbers mean).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::mirrored {

/// What matters about a parameter here. `dtype` is only compared: a bucket holds one dtype.
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
    std::int64_t offset = 0;    ///< from the bucket's begin
  };
  int dtype = 0;
  std::int64_t begin = 0;     ///< in the arena of the dtype; on a cache line
  std::int64_t elements = 0;  ///< of the whole bucket: gradients, padding, tail
  std::int64_t tail = 0;  ///< from the bucket's begin: `gave up`, `stop_votes`, then `used` for each member in order
  std::vector<Member> members;
};

/// Fills buckets in `order`, a permutation of 0 .. sizes.size() - 1: the order in which gradients are expected. The
/// result is sorted by when a bucket can be complete, that is by its last member's position in `order`.
std::vector<BucketPlan> plan_buckets(const std::vector<GradientSize>& sizes, const std::vector<std::size_t>& order,
                                     const BucketLimits& limits);

struct ArenaSize {
  int dtype = 0;
  std::int64_t elements = 0;
};

/// For each dtype, in the order of first appearance, how long an arena must be so that the plan of any order fits.
std::vector<ArenaSize> arena_sizes(const std::vector<GradientSize>& sizes, const BucketLimits& limits);

}  // namespace lockstep::mirrored
