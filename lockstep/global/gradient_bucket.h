// A bucket of partial gradients that are reduced by one collective, and the memory of buckets, which is reused from one
// backward to the next.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep::global {

/// The common properties of the gradients in one bucket.
struct BucketKind {
  MeshState* mesh = nullptr;
  std::size_t axis = 0;  ///< mesh axis on which the gradients are partial
  ReduceOp op = ReduceOp::sum;
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool scatter = false;  ///< reduce_scatter: each rank needs its part only; otherwise all_reduce
  friend bool operator==(const BucketKind&, const BucketKind&) = default;
};

/// A part of a piece in which a gradient stays, and the storage of the global tensor that points to it.
struct LentMemory {
  at::Storage memory;
  c10::weak_intrusive_ptr<c10::StorageImpl> shown_by;
};

/// One allocation, for buckets of this kind.
struct BucketPiece {
  BucketKind kind;
  std::shared_ptr<MeshState> mesh;  ///< the mesh of the kind, kept alive so that no other mesh gets its address
  at::Tensor memory;                ///< undefined: no piece
  std::vector<LentMemory> lent;     ///< parts of it in which gradients stay
};

/// A cache of bucket memory. Allocating shared memory, zeroing it and exchanging it with all ranks takes longer than a
/// reduction in it, and each backward needs the same pieces. The ranks of one group request the same pieces in the same
/// order, so either all of them find a piece or none does; lent parts do not affect that.
class BucketMemory {
 public:
  /// A piece of at least `elements` elements for a bucket of this kind; its content is undefined. Gradients that still
  /// use lent parts of the piece are copied to separate memory. A collective of the kind's group if no suitable
  /// piece was given back.
  BucketPiece take(const BucketKind& kind, std::shared_ptr<MeshState> mesh, std::int64_t elements);
  /// Gives back a piece that its bucket no longer needs.
  void give_back(BucketPiece piece);
  /// Gives back a piece in which gradients may stay; it is free again after this backward.
  void give_back_at_end(BucketPiece piece);
  /// Ends a backward: frees the pieces that it did not use.
  void end_backward();
  void forget();

 private:
  static BucketPiece smallest_of(std::vector<BucketPiece>& pieces, const BucketKind& kind, std::int64_t elements);

  std::vector<BucketPiece> kept_;
  std::vector<BucketPiece> used_;    ///< used by this backward, and free again
  std::vector<BucketPiece> at_end_;  ///< used by this backward, and free when it ends
};

/// A gradient, and the placements that it must have in the end.
struct PendingGradient {
  at::Tensor gradient;  ///< global
  Placements goal;
  bool may_stay = false;  ///< whether it may stay in the bucket's memory: it is contiguous, and backward adds nothing
                          ///< to it
};

/// Sets `kind` to the bucket kind of a gradient: that of the first axis on which it is partial and its goal is not.
/// False if there is no such axis, or if the gradient must be reduced separately (a dimension that other axes shard,
/// too).
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
