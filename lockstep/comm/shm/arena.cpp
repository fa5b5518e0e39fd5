// Blocks of one anonymous file, with a page-aligned part for each rank, and the search for the block of a pointer.
#include <lockstep/comm/shm/arena.h>

#include <lockstep/base/available_memory.h>
#include <lockstep/base/error.h>

#include <algorithm>
#include <cerrno>
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

Block::Block(std::shared_ptr<const UniqueFd> file, std::shared_ptr<SharedBlocks> registry, std::uint32_t id, int rank,
             std::uint64_t offset, std::size_t stride, Mapping mapping)
    : file_(std::move(file)),
      registry_(std::move(registry)),
      id_(id),
      rank_(rank),
      offset_(offset),
      stride_(stride),
      mapping_(std::move(mapping)) {}

Block::~Block() {
  registry_->remove(id_);
  release(file_->get(), offset_ + static_cast<std::size_t>(rank_) * stride_, stride_);
}

void Block::open() { registry_->add(id_, mapping_.data(), stride_); }

Arena::Arena(UniqueFd file, int rank, int ranks, std::shared_ptr<SharedBlocks> registry)
    : file_(std::make_shared<const UniqueFd>(std::move(file))),
      registry_(std::move(registry)),
      rank_(rank),
      ranks_(ranks) {}

bool Arena::has_room_for(std::size_t bytes) const {
  return bytes < available_memory() / static_cast<std::uint64_t>(ranks_);
}

Arena::Made Arena::make(std::size_t bytes) {
  // Parts of huge pages are useless, and parts of small pages would share a page between ranks.
  const std::size_t unit = bytes >= kHugePage ? kHugePage : kPage;
  const std::size_t stride = round_up(bytes, unit);
  const std::uint64_t offset = round_up(end_, unit);
  const std::size_t whole = stride * static_cast<std::size_t>(ranks_);
  const std::uint64_t mine = offset + static_cast<std::size_t>(rank_) * stride;
  end_ = offset + whole;  // also when it fails: the other ranks assume this offset
  ++last_id_;
  const int error = commit(file_->get(), mine, stride);
  if (error != 0) return {nullptr, error};
  try {
    auto block = std::make_unique<Block>(file_, registry_, last_id_, rank_, offset, stride,
                                         Mapping(file_->get(), offset, whole, unit));
    prepare(block->part(), stride);
    return {std::move(block), 0};
  } catch (const Error&) {
    release(file_->get(), mine, stride);
    return {nullptr, ENOMEM};
  }
}

}  // namespace lockstep::shm
