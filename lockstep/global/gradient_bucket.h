// A bucket of partial gradients that are reduced by one collective.
#pragma once

#include <lockstep/comm/work.h>
#include <lockstep/global/bucket_memory.h>
#include <lockstep/global/tensor_state.h>

#include <cstdint>
#include <vector>

namespace lockstep::global {

/// A gradient and how it is to lie in the end.
struct PendingGradient {
  at::Tensor gradient;  ///< global
  Placements goal;
  bool may_stay = false;  ///< in the bucket, where its sum is: it is contiguous, and this program adds nothing to it
};

/// The bucket that a gradient belongs into: the first axis on which it is partial and its goal is not. False where
/// there is none, or where only a reduction on its own will do (a dimension that other axes divide, too).
bool fits_bucket(const PendingGradient& gradient, BucketKind& kind);

/// Collects gradients, reduces them all at once, and gives each its result.
class GradientBucket {
 public:
  explicit GradientBucket(const BucketKind& kind) : kind_(kind) {}

  const BucketKind& kind() const { return kind_; }
  /// Of the largest parts that a rank has: what is decided by it is decided alike on all ranks.
  std::int64_t bytes() const { return most_elements_ * static_cast<std::int64_t>(c10::elementSize(kind_.dtype)); }
  void add(PendingGradient gradient);
  /// Copies the parts into one piece of memory and starts the reduction.
  void start(BucketMemory& memory);
  /// Waits for it; the gradients then lie as far towards their goals as this axis goes. Returns them. `last`: of the
  /// last buckets of this backward. Sums that are done, and may, stay in the memory of such a bucket until the next
  /// backward.
  std::vector<PendingGradient> finish(BucketMemory& memory, bool last);

 private:
  void start_all_reduce();
  void start_reduce_scatter();
  Placements placements_after(const PendingGradient& gradient) const;
  void take_sums(bool stay);
  void take_parts();

  BucketKind kind_;
  std::vector<PendingGradient> gradients_;
  std::int64_t elements_ = 0;       ///< of this rank's parts, padded where they are scattered
  std::int64_t most_elements_ = 0;  ///< of the largest parts
  BucketPiece piece_;               ///< of whose memory what is sent is the first part
  at::Tensor memory_;               ///< what is sent
  at::Tensor result_;               ///< what comes back: the same memory, or this rank's part
  Work work_;
};

}  // namespace lockstep::global
