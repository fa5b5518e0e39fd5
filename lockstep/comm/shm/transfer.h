// Collectives over shared memory: transfers, in which a rank stages its input once and each receiver reads the parts
// that it needs; and the all_reduce of large tensors, in which each rank reduces one slice for all ranks.
#pragma once

#include <lockstep/comm/reduction/kernels.h>
#include <lockstep/comm/shm/collective.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::shm {

/// The ranks that give blocks and the ranks that take them.
struct Pattern {
  bool from_root = false;   ///< only root gives
  bool to_root = false;     ///< only root takes
  bool blocks_in = false;   ///< a giver has one block for each rank; otherwise all ranks take the same block
  bool blocks_out = false;  ///< a taker keeps one block of each giver
  bool reduces = false;     ///< a taker reduces the givers' blocks to one
};

/// Error(invalid_argument) for kinds that are not transfers.
Pattern pattern_of(Kind kind);

/// The tensors of one rank: `input` where it gives, `output` where it takes; the same pointer where the collective
/// works in place. The caller keeps them alive until the operation is done.
struct Buffers {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::size_t block_bytes = 0;  ///< of one rank's block; 0 makes it a barrier
  std::size_t item_bytes = 1;
  /// For a reduce: the number of givers, in their order, whose reduction forms each block of the output. Empty: all are
  /// reduced to one.
  std::vector<int> parts = {};
};

/// A collective in which a rank stages its input once and each receiver reads the parts that it needs: all collectives
/// except all_reduce of large tensors.
class Transfer : public Collective {
 public:
  /// `kernel` is needed when the pattern reduces.
  Transfer(const Signature& signature, const Place& place, const Buffers& buffers, ReduceKernel kernel);

 protected:
  std::uint64_t chunk_count(const Endpoint& endpoint) const override;
  bool contributes(const Endpoint& endpoint) const override { return gives(endpoint.rank()); }
  void stage(Endpoint& endpoint, std::uint64_t index) override;
  bool advance_staged(Endpoint& endpoint) override;
  std::vector<Lack> staged_lacks(const Endpoint& endpoint) const override;
  void share_in_place(Endpoint& endpoint) override;

 private:
  // A range of bytes within every block.
  struct Range {
    std::size_t first;
    std::size_t count;
  };
  std::size_t unit(const Endpoint& endpoint) const;
  Range range(const Endpoint& endpoint, std::uint64_t index) const;
  bool gives(int rank) const { return !pattern_.from_root || rank == signature().root; }
  bool takes(int rank) const { return !pattern_.to_root || rank == signature().root; }
  bool can_take(const Endpoint& endpoint) const;
  std::vector<int> not_staged(const Endpoint& endpoint) const;

  /// Reads `range` of the block for this rank from each giver; `source(rank)` is the address of another rank's block.
  template <typename Source>
  void take(const Endpoint& endpoint, Range range, const Source& source);

  Pattern pattern_;
  Buffers buffers_;
  ReduceKernel kernel_;
  std::uint64_t taken_ = 0;  // chunks
};

/// A range of bytes.
struct Slice {
  std::size_t begin;
  std::size_t end;
};

/// The part of `bytes` that a rank reduces: whole cache lines, so that two ranks never write to the same line. The last
/// ranks may have a smaller part or none.
Slice slice_of(std::size_t bytes, int rank, int ranks);

/// In memory that all ranks share, a rank reads its slice of every rank's tensor and writes the result to all of them:
/// each byte is read once and written once. `address(rank)` is the address of that rank's tensor.
template <typename Address>
void reduce_slice_in_place(const Endpoint& endpoint, std::size_t bytes, std::size_t item_bytes, ReduceKernel kernel,
                           const Address& address) {
  const Slice mine = slice_of(bytes, endpoint.rank(), endpoint.size());
  if (mine.begin == mine.end) return;
  std::array<const std::byte*, kMaxRanks> sources;
  std::array<std::byte*, kMaxRanks> targets;
  for (int rank = 0; rank < endpoint.size(); ++rank) {
    std::byte* const slice = address(rank) + mine.begin;
    sources[static_cast<std::size_t>(rank)] = slice;
    targets[static_cast<std::size_t>(rank)] = slice;
  }
  kernel(sources.data(), endpoint.size(), targets.data(), endpoint.size(), (mine.end - mine.begin) / item_bytes);
}

/// Through staging, in pieces: copy in the slices that others reduce, reduce the own slice, copy out the results of the
/// others. In shared memory as above.
class SlicedAllReduce : public Collective {
 public:
  SlicedAllReduce(const Signature& signature, const Place& place, std::byte* data, std::size_t bytes,
                  std::size_t item_bytes, ReduceKernel kernel);

 protected:
  std::uint64_t chunk_count(const Endpoint& endpoint) const override;
  bool contributes(const Endpoint&) const override { return true; }
  void stage(Endpoint& endpoint, std::uint64_t index) override;
  bool advance_staged(Endpoint& endpoint) override;
  std::vector<Lack> staged_lacks(const Endpoint& endpoint) const override;
  void share_in_place(Endpoint& endpoint) override;

 private:
  struct Range {
    std::size_t first;
    std::size_t count;
  };
  Range piece(const Endpoint& endpoint, std::uint64_t index) const;
  bool can_reduce(const Endpoint& endpoint) const;
  bool can_collect(const Endpoint& endpoint) const;
  bool is_reduced(const Endpoint& endpoint, int rank, std::uint64_t index) const;
  void reduce_piece(Endpoint& endpoint);
  void collect_piece(Endpoint& endpoint);

  std::byte* data_;
  std::size_t bytes_;
  std::size_t item_bytes_;
  ReduceKernel kernel_;
  std::uint64_t reduced_ = 0;    // chunks
  std::uint64_t collected_ = 0;  // chunks
};

}  // namespace lockstep::shm
