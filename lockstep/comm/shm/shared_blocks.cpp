#include <lockstep/comm/shm/shared_blocks.h>

#include <algorithm>
#include <functional>

namespace lockstep::shm {

void SharedBlocks::add(std::uint32_t id, std::byte* base, std::size_t stride) {
  const std::lock_guard lock(mutex_);
  blocks_.push_back({id, base, stride});
}

void SharedBlocks::remove(std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(blocks_, [id](const Block& block) { return block.id == id; });
}

Place SharedBlocks::find(const std::byte* data, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const std::less_equal<const std::byte*> not_after;
  for (const Block& block : blocks_) {
    const std::byte* const part = block.base + static_cast<std::size_t>(rank_) * block.stride;
    if (!not_after(part, data) || !not_after(data + bytes, part + block.stride)) continue;
    return {block.id, static_cast<std::uint64_t>(data - part), block.base, block.stride};
  }
  return {};
}

}  // namespace lockstep::shm
