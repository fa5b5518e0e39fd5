// A bucket of partial gradients that are reduced by one collective.
#pragma once

#include <lockstep/comm/work.h>
#include <lockstep/global/bucket_memory.h>
#include <lockstep/global/tensor_state.h>

#include <cstdint>
#include <vector>

namespace lockstep::global {

/// A gradient, and the placements that it must have in the end.
struct PendingGradient {
  at::Tensor gradient;  ///< global
  Placements goal;
  bool may_stay = false;  ///< whether it may stay in the bucket's memory: it is contiguous, and backward adds nothing
                          ///< to it
};

/// Sets `kind` to the bucket kind of a gradient: that of the first axis on which it is partial and its goal is not.
/// False if there is none, or if the gradient must be reduced on its own (a dimension that other axes shard, too).
bool fits_bucket(const PendingGradient& gradient, BucketKind& kind);

/// Collects gradients, reduces them in one collective, and assigns the results.
class GradientBucket {
 public:
  explicit GradientBucket(const BucketKind& kind) : kind_(kind) {}

  const BucketKind& kind() const { return kind_; }
  /// The size with the largest part of each gradient over all ranks, so that decisions based on it are the same on all
  /// ranks.
  std::int64_t bytes() const { return most_elements_ * static_cast<std::int64_t>(c10::elementSize(kind_.dtype)); }
  void add(PendingGradient gradient);
  /// Copies the parts into one piece of memory and starts the reduction.
  void start(BucketMemory& memory);
  /// Waits for the reduction and returns the gradients, which are then reduced on this axis. `last`: it is one of the
  /// last buckets of this backward. In the memory of such a bucket, final sums may stay until the next backward.
  std::vector<PendingGradient> finish(BucketMemory& memory, bool last);

 private:
  void start_all_reduce();
  void start_reduce_scatter();
  Placements placements_after(const PendingGradient& gradient) const;
  void take_sums(bool stay);
  void take_parts();

  BucketKind kind_;
  std::vector<PendingGradient> gradients_;
  std::int64_t elements_ = 0;       ///< elements of this rank's parts, padded for reduce_scatter
  std::int64_t most_elements_ = 0;  ///< elements of the largest part of each gradient
  BucketPiece piece_;               ///< the bucket uses the beginning of its memory
  at::Tensor memory_;               ///< send buffer
  at::Tensor result_;               ///< receive buffer: the same memory, or this rank's part
  Work work_;
};

}  // namespace lockstep::global
