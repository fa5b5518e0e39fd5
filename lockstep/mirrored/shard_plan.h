// The division of the parameters into shards: the part that each rank updates. Arithmetic only, the same on every rank.
//
// All parameters of one dtype are consecutive in one buffer, the arena, each starting on a cache line. The arena is
// divided evenly, independent of the boundaries of parameters; rank r owns its r-th shard:
//
//     | weight          | pad | bias | pad | weight              | pad |
//     | shard of rank 0       | shard of rank 1       | shard of rank 2       |
//
// The part of a parameter that a rank owns is split into pieces that fit into a core's cache, because optimizers read a
// tensor several times.
#pragma once

#include <lockstep/mirrored/bucket_plan.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::mirrored {

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
