#include <lockstep/comm/collectives.h>
#include <lockstep/global/bucket_memory.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep::global {
namespace {

/// Whether buckets of two kinds can use the same piece: the operation does not matter.
bool same_memory(const BucketKind& a, const BucketKind& b) {
  return a.mesh == b.mesh && a.axis == b.axis && a.dtype == b.dtype;
}

/// Copies lent values to new memory and redirects the storage to it, for all tensors that share the storage (a
/// gradient, detached tensors, views).
void take_back(const LentMemory& lent) {
  const auto& memory = lent.memory;
  if (memory.use_count() == 1) return;
  const auto bytes = at::empty({0}, at::TensorOptions().dtype(at::kByte).device(memory.device()));
  const at::Tensor copy = bytes.set_(memory).clone();
  memory.set_data_ptr(copy.storage().set_data_ptr(at::DataPtr()));
  if (const auto shown_by = lent.shown_by.lock()) show_memory(*shown_by);
}

}  // namespace

BucketPiece BucketMemory::take(const BucketKind& kind, std::shared_ptr<MeshState> mesh, std::int64_t elements) {
  auto piece = smallest_of(used_, kind, elements);
  if (!piece.memory.defined()) piece = smallest_of(kept_, kind, elements);
  for (const auto& lent : std::exchange(piece.lent, {})) take_back(lent);
  if (!piece.memory.defined()) {
    piece.memory = allocate(kind.mesh->group(kind.axis), elements, static_cast<int>(kind.dtype));
  }
  piece.kind = kind;
  piece.mesh = std::move(mesh);
  return piece;
}

/// Removes and returns the smallest piece that is large enough.
BucketPiece BucketMemory::smallest_of(std::vector<BucketPiece>& pieces, const BucketKind& kind, std::int64_t elements) {
  auto best = pieces.end();
  for (auto each = pieces.begin(); each != pieces.end(); ++each) {
    if (!same_memory(each->kind, kind) || each->memory.numel() < elements) continue;
    if (best == pieces.end() || each->memory.numel() < best->memory.numel()) best = each;
  }
  if (best == pieces.end()) return {};
  auto piece = std::move(*best);
  pieces.erase(best);
  return piece;
}

void BucketMemory::give_back(BucketPiece piece) { used_.push_back(std::move(piece)); }

void BucketMemory::give_back_at_end(BucketPiece piece) { at_end_.push_back(std::move(piece)); }

void BucketMemory::end_backward() {
  kept_ = std::exchange(used_, {});
  std::move(at_end_.begin(), at_end_.end(), std::back_inserter(kept_));
  at_end_.clear();
}

void BucketMemory::forget() {
  kept_.clear();
  used_.clear();
  at_end_.clear();
}

}  // namespace lockstep::global
