// Finishes the gradients of global parameters while backward still runs: partial sums over the ranks that had other
// data are reduced many at a time, not one by one when the optimizer asks for them.
#pragma once

#include <cstdint>
#include <vector>

namespace at {
class Tensor;
}

namespace lockstep {

struct GradientReductionOptions {
  std::int64_t bucket_bytes = 25 << 20;       ///< gradients travel in buckets of about this size
  std::int64_t first_bucket_bytes = 1 << 20;  ///< the first is smaller, so that communication starts early
};

/// From now on `backward()` returns with each `.grad()` of these global leaves as its parameter lies, as far as it was
/// partial: summed over axes where the parameter is replicated, summed and divided where it is sharded. Lasts as long
/// as the parameters do; called once for each parameter (distribute_module() does). A gradient may lie in a bucket
/// until the next backward, which moves what is still held then: addresses of its numbers are good until then. Not
/// thread-safe; one backward at a time.
void reduce_gradients_in_buckets(const std::vector<at::Tensor>& parameters,
                                 const GradientReductionOptions& options = {});

}  // namespace lockstep
