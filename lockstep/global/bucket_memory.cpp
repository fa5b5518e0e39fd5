#include <lockstep/comm/collectives.h>
#include <lockstep/global/bucket_memory.h>

#include <utility>

namespace lockstep::global {
namespace {

/// What is done in it makes no difference to a piece.
bool same_memory(const BucketKind& a, const BucketKind& b) {
  return a.mesh == b.mesh && a.axis == b.axis && a.dtype == b.dtype;
}

}  // namespace

at::Tensor BucketMemory::take(const BucketKind& kind, std::int64_t elements) {
  auto piece = smallest_of(used_, kind, elements);
  if (!piece.defined()) piece = smallest_of(kept_, kind, elements);
  if (!piece.defined()) piece = allocate(kind.mesh->group(kind.axis), elements, static_cast<int>(kind.dtype));
  return piece;
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

void BucketMemory::end_backward() { kept_ = std::exchange(used_, {}); }

void BucketMemory::forget() {
  kept_.clear();
  used_.clear();
}

}  // namespace lockstep::global
