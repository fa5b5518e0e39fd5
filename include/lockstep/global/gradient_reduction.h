// The reduction of global parameters' gradients during backward: partial sums over the ranks that had other
// data are reduced in buckets, not one by one when the optimizer reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace at {
class Tensor;
}

namespace lockstep {

/// Buckets take memory, so at most four are reduced at the same time (the first is most likely done when a fifth is
/// full), and of several no more than have 200 MiB together.
inline constexpr std::size_t kMostBucketsUnderWay = 4;
inline constexpr std::int64_t kMostBytesUnderWay = 200 << 20;

struct GradientReductionOptions {
  std::int64_t bucket_bytes = 25 << 20;       ///< gradients travel in buckets of about this size
  std::int64_t first_bucket_bytes = 1 << 20;  ///< the first is smaller, so that communication starts early
};

/// From now on `backward()` returns with each `.grad()` of these global leaves as its parameter lies, as far as it was
/// partial: summed over axes where the parameter is replicated, summed and divided where it is sharded. Lasts as long
/// as the parameters do; called once for each parameter (distribute_module() does). Not thread-safe; one backward at a
/// time.
///
/// Where `zero_grad(/*set_to_none=*/true)` left none to add to, and the parameter is contiguous, the sums of the last
/// buckets stay in their memory: a gradient then keeps its bucket's memory alive. When the next backward needs that
/// memory, it moves the numbers of gradients that are still held. From then on pointers and foreign views that were
/// taken of them (data_ptr(), from_blob, DLPack) are invalid; and while backward runs no other thread, and no Work that
/// is under way, may use an earlier gradient. Use a clone() for that.
void reduce_gradients_in_buckets(const std::vector<at::Tensor>& parameters,
                                 const GradientReductionOptions& options = {});

/// While alive, backward on this thread leaves partial gradients as they are, and the next one adds to them: nothing is
/// sent for the gradients of a micro-batch. The first backward without it finishes the sums.
///
///     for (int i = 0; i < 3; ++i) {
///       lockstep::HoldGradients hold;
///       loss_of(batches[i]).backward();
///     }
///     loss_of(batches[3]).backward();
///
/// Gradients of parameters that are divided where the gradient is partial are divided at once all the same: whole ones
/// would take the memory that dividing the parameter saves.
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
