// Shared memory that grows while the job runs: blocks with a part for each rank, mapped by all of them, and the
// registry of the blocks that this process has mapped.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/shm/endpoint.h>
#include <lockstep/comm/shm/segment.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace lockstep::shm {

/// The addresses of this process in memory that all ranks of the group have mapped. Blocks have one part for each rank,
/// `stride` bytes apart. Thread-safe.
class SharedBlocks {
 public:
  explicit SharedBlocks(int rank) : rank_(rank) {}

  /// `id` is the same on all ranks and not 0.
  void add(std::uint32_t id, std::byte* base, std::size_t stride);
  void remove(std::uint32_t id);

  /// The place of [data, data + bytes) when the whole range is in this rank's part of a block; else block 0.
  Place find(const std::byte* data, std::size_t bytes) const;

 private:
  struct Block {
    std::uint32_t id;
    std::byte* base;
    std::size_t stride;
  };
  int rank_;
  mutable std::mutex mutex_;
  std::vector<Block> blocks_;
};

/// One rank's handle of a block. Its destructor returns this rank's part to the system and unmaps the block; the other
/// ranks return their own parts. Their collectives never read a part that this rank no longer uses.
class Block {
 public:
  Block(std::shared_ptr<const UniqueFd> file, std::shared_ptr<SharedBlocks> registry, std::uint32_t id, int rank,
        std::uint64_t offset, std::size_t stride, Mapping mapping);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// This rank's part, initially zeros.
  std::byte* part() const { return mapping_.data() + static_cast<std::size_t>(rank_) * stride_; }
  std::size_t stride() const { return stride_; }
  /// Lets collectives use the block in place. Call it when all ranks have the block.
  void open();

 private:
  std::shared_ptr<const UniqueFd> file_;
  std::shared_ptr<SharedBlocks> registry_;
  std::uint32_t id_;
  int rank_;
  std::uint64_t offset_;
  std::size_t stride_;
  Mapping mapping_;
};

/// Allocates ranges of one memory file. All ranks allocate the same sizes in the same order, so they agree on the
/// ranges without messages. A range is never used twice, because the file may grow without limit. Not thread-safe.
class Arena {
 public:
  Arena(UniqueFd file, int rank, int ranks, std::shared_ptr<SharedBlocks> registry);

  /// Whether there is memory for a block of `bytes` for each rank together. All ranks call it before any of them makes
  /// the block: with too little memory, the kernel would kill a process instead of refusing the request.
  bool has_room_for(std::size_t bytes) const;

  /// `error`: an errno, the reason of a failure on this rank; then there is no block.
  struct Made {
    std::unique_ptr<Block> block;
    int error = 0;
  };
  /// Makes a block of `bytes` (at least 1) for each rank, with real memory for this rank's part.
  Made make(std::size_t bytes);

 private:
  std::shared_ptr<const UniqueFd> file_;
  std::shared_ptr<SharedBlocks> registry_;
  int rank_;
  int ranks_;
  std::uint32_t last_id_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace lockstep::shm
