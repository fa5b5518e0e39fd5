// Partial gradients that travel together.
#pragma once

#include <lockstep/comm/work.h>
#include <lockstep/global/tensor_state.h>

#include <cstdint>
#include <vector>

namespace lockstep::global {

/// What gradients of one bucket have in common.
struct BucketKind {
  MeshState* mesh = nullptr;
  std::size_t axis = 0;  ///< over which they are partial
  ReduceOp op = ReduceOp::sum;
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool scatter = false;  ///< each rank needs its part only
  friend bool operator==(const BucketKind&, const BucketKind&) = default;
};

/// A gradient and how it is to lie in the end.
struct PendingGradient {
  at::Tensor gradient;  ///< global
  Placements goal;
  bool may_stay = false;  ///< where it is reduced: nobody expects it where it is, or otherwise than contiguous
};

/// The bucket that a gradient belongs into: the first axis on which it is partial and its goal is not. False where
/// there is none, or where only a reduction on its own will do (a dimension that other axes divide, too).
bool fits_bucket(const PendingGradient& gradient, BucketKind& kind);

class BucketMemory;

/// Collects gradients, reduces them all at once, and gives each its result.
class GradientBucket {
 public:
  explicit GradientBucket(const BucketKind& kind) : kind_(kind) {}

  const BucketKind& kind() const { return kind_; }
  std::int64_t bytes() const { return elements_ * static_cast<std::int64_t>(c10::elementSize(kind_.dtype)); }
  void add(PendingGradient gradient);
  /// Copies the parts into one piece of memory and starts the reduction.
  void start(BucketMemory& memory);
  /// Waits for it; the gradients then lie as far towards their goals as this axis goes. Returns them. `stay`: no other
  /// bucket needs the memory in this backward, so those that may stay in it do until the next, if all are done.
  std::vector<PendingGradient> finish(BucketMemory& memory, bool stay);

 private:
  void start_all_reduce();
  void start_reduce_scatter();
  void take_sums(bool stay);
  void take_parts();

  BucketKind kind_;
  std::vector<PendingGradient> gradients_;
  std::int64_t elements_ = 0;
  at::Tensor piece_;   ///< of which what is sent is the first part
  at::Tensor memory_;  ///< what is sent
  at::Tensor result_;  ///< what comes back: the same memory, or this rank's part
  Work work_;
};

}  // namespace lockstep::global
