// Finishes the gradients of global parameters while backward still runs: partial sums over the ranks that had other
// data are reduced many at a time, not one by one when the optimizer asks for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace at {
class Tensor;
}

namespace lockstep {

/// Buckets take memory, and the first of so many is most likely reduced when one more is full. Large gradients make
/// large buckets: together they may be as large as so many that are just full.
inline constexpr std::size_t kMostBucketsUnderWay = 4;
inline constexpr int kMostFullBucketsUnderWay = 8;

struct GradientReductionOptions {
  std::int64_t bucket_bytes = 25 << 20;       ///< gradients travel in buckets of about this size
  std::int64_t first_bucket_bytes = 1 << 20;  ///< the first is smaller, so that communication starts early
};

/// From now on `backward()` returns with each `.grad()` of these global leaves as its parameter lies, as far as it was
/// partial: summed over axes where the parameter is replicated, summed and divided where it is sharded. Lasts as long
/// as the parameters do; called once for each parameter (distribute_module() does). Not thread-safe; one
/// backward at a time.
///
/// Gradients of the last buckets stay in their memory, where `zero_grad(/*set_to_none=*/true)` left none to add to. The
/// next backward needs that memory: of a gradient that is still held then it moves the numbers elsewhere. So no other
/// thread, no Work under way and no foreign view (from_blob, DLPack) may use an earlier gradient while backward runs;
/// clone() what is to outlive it so.
void reduce_gradients_in_buckets(const std::vector<at::Tensor>& parameters,
                                 const GradientReductionOptions& options = {});

}  // namespace lockstep
