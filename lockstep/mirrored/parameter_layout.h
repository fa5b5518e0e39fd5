// The layout of a module's tensors in flat buffers: gradients in buckets, and parameters in shards. Arithmetic only,
// the same on every rank.
//
// All tensors of one dtype are consecutive in one buffer, the arena. Each starts on a cache line, so that neighbours
// share none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::mirrored {

/// Elements in a cache line, at least 1.
inline std::int64_t line_elements(std::int64_t element_bytes) {
  constexpr std::int64_t kCacheLine = 64;
  return std::max<std::int64_t>(1, kCacheLine / element_bytes);
}

/// `elements` rounded up to whole cache lines.
inline std::int64_t round_up_to_line(std::int64_t elements, std::int64_t element_bytes) {
  const std::int64_t line = line_elements(element_bytes);
  return (elements + line - 1) / line * line;
}

/// The size of a parameter's gradient. `dtype` is only compared: a bucket has one dtype.
struct GradientSize {
  std::int64_t elements = 0;
  std::int64_t element_bytes = 4;
  int dtype = 0;
};

/// The number of votes in a bucket's tail, one for each subject.
inline constexpr int kVotes = 4;
/// Bits of the number of the object that owns a bucket, in its tail.
inline constexpr int kOwnerBits = 8;
/// Marks of a tail before those of the members: gave up, replaced, votes, owner.
inline constexpr std::int64_t kMarks = 2 + kVotes + kOwnerBits;

struct BucketLimits {
  std::int64_t bytes = 25 << 20;       ///< no bucket is larger, unless it holds a single gradient
  std::int64_t first_bytes = 1 << 20;  ///< the same for the first bucket
};

/// A bucket contains its gradients and then its tail:
///
///     | gradient | pad | gradient | pad | ... | gave up | replaced | votes | owner | used 0 | ... | pad |
///
/// The tail is reduced with the gradients in the same all_reduce, so that ranks agree on these values without an
/// additional collective (gradient_buckets.h defines the values). All offsets and lengths are in elements of the
/// bucket's dtype.
struct BucketPlan {
  struct BucketMember {
    std::size_t parameter = 0;  ///< index into the sizes
    std::int64_t offset = 0;    ///< from the start of the bucket
  };
  int dtype = 0;
  std::int64_t begin = 0;     ///< offset in the arena of the dtype; on a cache line
  std::int64_t elements = 0;  ///< elements of the whole bucket: gradients, padding, tail
  std::int64_t tail = 0;      ///< offset in the bucket: kMarks marks, then `used` for each member in order
  std::vector<BucketMember> members;
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

/// The division of the parameters into shards: the part that each rank updates. The arena is divided evenly,
/// independent of the boundaries of parameters; rank r owns its r-th shard:
///
///     | weight          | pad | bias | pad | weight              | pad |
///     | shard of rank 0       | shard of rank 1       | shard of rank 2       |
///
/// The part of a parameter that a rank owns is split into pieces that fit into a core's cache, because optimizers read
/// a tensor several times.
struct ShardPlan {
  struct Arena {
    int dtype = 0;
    std::int64_t shard_elements = 0;  ///< elements of one shard; the arena has ranks * shard_elements
  };
  struct Place {
    std::size_t arena = 0;
    std::int64_t offset = 0;  ///< in the arena, in elements
  };
  struct Piece {
    std::size_t parameter = 0;
    std::int64_t begin = 0;  ///< in the parameter's memory, in elements
    std::int64_t elements = 0;
  };
  std::vector<Arena> arenas;  ///< in the order of the dtypes' first appearance
  std::vector<Place> places;  ///< by parameter
  std::vector<Piece> pieces;  ///< of this rank, sorted by parameter and begin
};

/// The size of a piece that fits, together with its gradient and momentum, into a core's second-level cache.
inline constexpr std::int64_t kPieceBytes = 128 << 10;

ShardPlan plan_shards(const std::vector<GradientSize>& sizes, int rank, int ranks,
                      std::int64_t piece_bytes = kPieceBytes);

}  // namespace lockstep::mirrored
