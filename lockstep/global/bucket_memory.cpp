#include <lockstep/comm/collectives.h>
#include <lockstep/global/bucket_memory.h>

#include <algorithm>
#include <utility>

namespace lockstep::global {

at::Tensor BucketMemory::take(const BucketKind& kind, std::int64_t elements) {
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Piece& each) {
    return each.kind == kind && each.memory.numel() == elements;
  });
  if (found == kept_.end()) return allocate(kind.mesh->group(kind.axis), elements, static_cast<int>(kind.dtype));
  auto memory = std::move(found->memory);
  kept_.erase(found);
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
