// The reduction of global parameters' gradients during backward: gradients that are partial, because ranks had
// different data, are reduced in buckets, not one by one when the optimizer reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace at {
class Tensor;
}

namespace lockstep {

/// Limits of the buckets that are reduced at the same time, because buckets take memory: at most four (the first is
/// most likely done when a fifth is full), and together at most 200 MiB, unless it is a single bucket.
inline constexpr std::size_t kMostBucketsUnderWay = 4;
inline constexpr std::int64_t kMostBytesUnderWay = 200 << 20;

struct GradientReductionOptions {
  std::int64_t bucket_bytes = 25 << 20;       ///< gradients are reduced in buckets of about this size
  std::int64_t first_bucket_bytes = 1 << 20;  ///< the first is smaller, so that communication starts early
};

/// Makes `backward()` reduce the partial gradients of these global leaf tensors: when it returns, each `.grad()` has
/// the placements of its parameter. Gradients are summed (all_reduce) over axes on which the parameter is replicated,
/// and summed and scattered (reduce_scatter) where it is sharded. Lasts as long as the parameters do. Call it once for
/// each parameter; distribute_module() does so. Not thread-safe; one backward at a time.
///
/// Where `zero_grad(/*set_to_none=*/true)` removed the old gradient, and the parameter is contiguous, the sums of the
/// last buckets stay in bucket memory: the gradient then keeps its bucket's memory alive. When the next backward needs
/// that memory, it moves the values of gradients that are still held. From then on pointers to them and views made
/// outside libtorch (data_ptr(), from_blob, DLPack) are invalid. While backward runs, no other thread and no pending
/// Work may use an earlier gradient. Use a clone() for that.
void reduce_gradients_in_buckets(const std::vector<at::Tensor>& parameters,
                                 const GradientReductionOptions& options = {});

/// A scope for gradient accumulation without communication. While it exists, backward on this thread leaves partial
/// gradients unreduced, and the next backward adds to them. The first backward outside of the scope reduces the sums.
///
///     for (int i = 0; i < 3; ++i) {
///       lockstep::HoldGradients hold;
///       loss_of(batches[i]).backward();
///     }
///     loss_of(batches[3]).backward();
///
/// Exception: where a parameter is sharded along an axis on which its gradient is partial, the gradient is reduced and
/// sharded in every backward. An unreduced full gradient would take the memory that sharding the parameter saves.
class HoldGradients {
 public:
  HoldGradients();
  ~HoldGradients();
  HoldGradients(const HoldGradients&) = delete;
  HoldGradients& operator=(const HoldGradients&) = delete;

 private:
  bool before_;
};

}  // namespace lockstep
