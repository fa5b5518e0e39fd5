// Transfers over shared memory: collectives in which a rank stages its input once and each receiver reads the parts
// that it needs.
#pragma once

#include <lockstep/comm/reduction/kernels.h>
#include <lockstep/comm/shm/collective.h>

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

}  // namespace lockstep::shm
