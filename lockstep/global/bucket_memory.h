// Memory of gradient buckets, kept from one backward to the next.
#pragma once

#include <lockstep/global/tensor_state.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
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

/// Memory of a piece that a gradient stays in, and the global tensor's storage that shows it.
struct LentMemory {
  at::Storage memory;
  c10::weak_intrusive_ptr<c10::StorageImpl> shown_by;
};

/// One allocation, in which buckets of this kind travel.
struct BucketPiece {
  BucketKind kind;
  std::shared_ptr<MeshState> mesh;  ///< that of the kind, so that none takes its address
  at::Tensor memory;                ///< undefined: no piece
  std::vector<LentMemory> lent;     ///< parts of it, each for a gradient that stays there
};

/// Getting shared memory from the system, zeroing it and agreeing on it with all ranks takes longer than a reduction in
/// it, and each backward needs the same pieces. Ranks of one group ask for the same in the same order, so that either
/// all of them find a piece or none does; what is lent makes no difference to that.
class BucketMemory {
 public:
  /// At least so many elements for a bucket of this kind; their numbers are anything. Who still holds what was lent of
  /// it keeps the numbers, in memory of their own. A collective of the kind's group where there are none that were
  /// given back.
  BucketPiece take(const BucketKind& kind, std::shared_ptr<MeshState> mesh, std::int64_t elements);
  /// What is not needed any more by its bucket.
  void give_back(BucketPiece piece);
  /// What gradients may stay in: free again when this backward is over.
  void give_back_at_end(BucketPiece piece);
  /// A backward is over: what it did not use goes.
  void end_backward();
  void forget();

 private:
  static BucketPiece smallest_of(std::vector<BucketPiece>& pieces, const BucketKind& kind, std::int64_t elements);

  std::vector<BucketPiece> kept_;
  std::vector<BucketPiece> used_;    ///< by this backward, and free again
  std::vector<BucketPiece> at_end_;  ///< and free when it is over
};

}  // namespace lockstep::global
