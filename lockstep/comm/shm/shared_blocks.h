// The registry of shared blocks: which addresses of this process are in memory that all ranks of the group have mapped.
#pragma once

#include <lockstep/comm/shm/endpoint.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace lockstep::shm {

/// Blocks have one part for each rank, `stride` bytes apart. Thread-safe.
class SharedBlocks {
 public:
  explicit SharedBlocks(int rank) : rank_(rank) {}

  /// `id` is the same on all ranks and not 0.
  void add(std::uint32_t id, std::byte* base, std::size_t stride);
  void remove(std::uint32_t id);

  /// The place of [data, data + bytes) when all of it is in this rank's part of a block; else block 0.
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

}  // namespace lockstep::shm
