// Shared memory that grows while the job runs: blocks with a part for each rank, mapped by all of them.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/shm/memory.h>
#include <lockstep/comm/shm/shared_blocks.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lockstep::shm {

/// One rank's handle of a block. Its destructor gives this rank's part back to the system and unmaps the block; the
/// other ranks give back their own parts. No collective of theirs reads a part that this rank no longer uses.
class Block {
 public:
  Block(std::shared_ptr<const UniqueFd> file, std::shared_ptr<SharedBlocks> registry, std::uint32_t id, int rank,
        std::uint64_t offset, std::size_t stride, Mapping mapping);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// This rank's part, zeros at first.
  std::byte* part() const { return mapping_.data() + static_cast<std::size_t>(rank_) * stride_; }
  std::size_t stride() const { return stride_; }
  /// Lets collectives use the block in place. To be called when all ranks have it.
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

/// Allocates ranges of one memory file. All ranks ask for the same sizes in the same order, so they agree on the ranges
/// without messages; a range is never used twice, because the file may grow without limit. Not thread-safe.
class Arena {
 public:
  Arena(UniqueFd file, int rank, int ranks, std::shared_ptr<SharedBlocks> registry);

  /// Whether there is memory for a block of `bytes` for each rank, all together. All ranks call it before any of them
  /// makes the block: with too little memory, the kernel would kill a process instead of refusing the request.
  bool has_room_for(std::size_t bytes) const;

  /// `error`: why it failed here, as an errno; then there is no block.
  struct Made {
    std::unique_ptr<Block> block;
    int error = 0;
  };
  /// A block of `bytes` (at least 1) for each rank, with real memory behind this rank's part.
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
