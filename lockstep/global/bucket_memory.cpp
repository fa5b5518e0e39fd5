#include <lockstep/comm/collectives.h>
#include <lockstep/global/bucket_memory.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep::global {
namespace {

/// What is done in it makes no difference to a piece.
bool same_memory(const BucketKind& a, const BucketKind& b) {
  return a.mesh == b.mesh && a.axis == b.axis && a.dtype == b.dtype;
}

/// The same memory, in a storage that nobody else holds. All tensors over the old one (gradients, what was detached
/// from them, views, on any rank for itself) find their numbers where it points to from now on.
at::Tensor apart_from_holders(at::Tensor piece) {
  if (piece.storage().use_count() == 1) return piece;
  at::Tensor other = piece.clone();
  at::DataPtr numbers = other.storage().set_data_ptr(at::DataPtr());
  other.storage().set_data_ptr(piece.storage().set_data_ptr(std::move(numbers)));
  return other;
}

}  // namespace

at::Tensor BucketMemory::take(const BucketKind& kind, std::int64_t elements) {
  auto piece = smallest_of(used_, kind, elements);
  if (piece.defined()) return piece;
  piece = smallest_of(kept_, kind, elements);
  if (piece.defined()) return apart_from_holders(std::move(piece));
  return allocate(kind.mesh->group(kind.axis), elements, static_cast<int>(kind.dtype));
}

/// The smallest that is large enough, taken out; undefined where there is none.
at::Tensor BucketMemory::smallest_of(std::vector<Piece>& pieces, const BucketKind& kind, std::int64_t elements) {
  auto best = pieces.end();
  for (auto each = pieces.begin(); each != pieces.end(); ++each) {
    if (!same_memory(each->kind, kind) || each->memory.numel() < elements) continue;
    if (best == pieces.end() || each->memory.numel() < best->memory.numel()) best = each;
  }
  if (best == pieces.end()) return {};
  auto memory = std::move(best->memory);
  pieces.erase(best);
  return memory;
}

void BucketMemory::give_back(const BucketKind& kind, std::shared_ptr<MeshState> mesh, at::Tensor memory) {
  used_.push_back({kind, std::move(mesh), std::move(memory)});
}

void BucketMemory::give_back_at_end(const BucketKind& kind, std::shared_ptr<MeshState> mesh, at::Tensor memory) {
  lent_.push_back({kind, std::move(mesh), std::move(memory)});
}

void BucketMemory::end_backward() {
  kept_ = std::exchange(used_, {});
  std::move(lent_.begin(), lent_.end(), std::back_inserter(kept_));
  lent_.clear();
}

void BucketMemory::forget() {
  kept_.clear();
  used_.clear();
  lent_.clear();
}

}  // namespace lockstep::global
