// Memory of gradient buckets, kept from one backward to the next.
#pragma once

#include <lockstep/global/gradient_bucket.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep::global {

/// Getting shared memory from the system, zeroing it and agreeing on it with all ranks takes longer than a reduction in
/// it, and each backward needs the same pieces. Ranks of one group ask for the same in the same order, so that either
/// all of them find a piece or none does.
class BucketMemory {
 public:
  /// At least so many elements for a bucket of this kind; their numbers are anything. A collective of the kind's group
  /// where there are none that were given back.
  at::Tensor take(const BucketKind& kind, std::int64_t elements);
  /// What is not needed any more by its bucket.
  void give_back(const BucketKind& kind, std::shared_ptr<MeshState> mesh, at::Tensor memory);
  /// What gradients may stay in: free again when this backward is over. Whoever still holds a tensor in it when it is
  /// taken keeps its numbers, in memory of their own.
  void give_back_at_end(const BucketKind& kind, std::shared_ptr<MeshState> mesh, at::Tensor memory);
  /// A backward is over: what it did not use goes.
  void end_backward();
  void forget();

 private:
  struct Piece {
    BucketKind kind;
    std::shared_ptr<MeshState> mesh;  ///< that of the kind, so that none takes its address
    at::Tensor memory;
  };
  static at::Tensor smallest_of(std::vector<Piece>& pieces, const BucketKind& kind, std::int64_t elements);

  std::vector<Piece> kept_;
  std::vector<Piece> used_;  ///< by this backward, and free again
  std::vector<Piece> lent_;  ///< to the gradients of this backward
};

}  // namespace lockstep::global
