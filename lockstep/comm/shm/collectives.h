// The collectives over shared memory: their base class (collective.cpp), all_reduce in which each rank reduces one
// slice for all ranks (all_reduce.cpp), and transfers, in which each receiver reads what it needs (transfer.cpp).
#pragma once

#include <lockstep/comm/reduction/kernels.h>
#include <lockstep/comm/shm/endpoint.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::shm {

/// Entering, agreement, and the choice between staging and memory shared already. The phases of a collective on one
/// rank:
///   1. enter: publish a header. Input in ordinary memory has its first chunk staged before, so that a small collective
///      costs one store to be seen by the others and one look at each of them;
///   2. settle: all ranks' headers are there; they agree, or this operation ends with Error(mismatch) everywhere and
///      leaves no trace. When everybody's data lies in the same shared block it works in place, else through staging;
///   3. move data until done: see the derived classes.
class Collective : public ShmOperation {
 public:
  Collective(const Signature& signature, const Place& place);

  /// For Kind::refused: the reason for the other ranks. To be called before `start`.
  void set_note(std::string note) { note_ = std::move(note); }

  /// To be called once, in the order in which all ranks call the group's collectives.
  void start(Endpoint& endpoint);
  /// Advances as far as possible without waiting.
  void advance(Endpoint& endpoint);
  std::uint64_t sequence() const { return sequence_; }

  std::vector<Lack> lacks(const Endpoint& endpoint) const final;

 protected:
  const Signature& signature() const { return signature_; }
  const Place& place() const { return place_; }
  std::uint64_t first_chunk() const { return first_chunk_; }

  /// The number of chunks when staged; the same on all ranks.
  virtual std::uint64_t chunk_count(const Endpoint& endpoint) const = 0;
  /// Whether this rank has anything to stage.
  virtual bool contributes(const Endpoint& endpoint) const = 0;
  /// Writes this rank's part of chunk `index` (counted from first_chunk) to its staging buffer.
  virtual void stage(Endpoint& endpoint, std::uint64_t index) = 0;
  /// Moves the available data; true when this rank needs nothing more. `staged` chunks were written before.
  virtual bool advance_staged(Endpoint& endpoint) = 0;
  virtual std::vector<Lack> staged_lacks(const Endpoint& endpoint) const = 0;
  /// This rank's share of the work in shared memory; afterwards the others must do theirs.
  virtual void share_in_place(Endpoint& endpoint) = 0;

  std::uint64_t chunks() const { return chunks_; }
  /// Chunks this rank has staged so far.
  std::uint64_t staged() const { return staged_; }
  /// Stages the next chunk and tells the others, if there is a next and its buffer is free.
  bool stage_next(Endpoint& endpoint);
  /// Whether `rank` has staged chunk `index`.
  bool is_staged(const Endpoint& endpoint, int rank, std::uint64_t index) const;
  Lack staging_lack(const Endpoint& endpoint) const;
  /// The address of `rank`'s data, once all headers are known to name one block.
  std::byte* shared_address(const Endpoint& endpoint, int rank) const;

 private:
  enum class Stage { waits, entered, staged, shared, ends };

  bool enter(Endpoint& endpoint);
  bool settle(Endpoint& endpoint);
  bool all_shared(const Endpoint& endpoint) const;
  Error mismatch(const Endpoint& endpoint) const;

  Signature signature_;
  std::uint64_t hash_;
  Place place_;
  std::string note_;
  Stage stage_ = Stage::waits;
  bool agrees_ = true;
  bool in_one_block_;
  int seen_ = 0;  // ranks below have entered
  bool took_chunks_ = false;
  bool did_share_ = false;
  std::uint64_t sequence_ = 0;
  std::uint64_t chunks_ = 0;
  std::uint64_t first_chunk_ = 0;
  std::uint64_t staged_ = 0;
};

/// A range of bytes.
struct Slice {
  std::size_t begin;
  std::size_t end;
};

/// The part of `bytes` that a rank reduces: whole cache lines, so that two ranks never write to one. The last ranks may
/// get less or nothing.
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

/// Through staging, in pieces: copy in the slices that others reduce, reduce one's own, copy out what others reduced.
/// In shared memory as above.
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

/// Which ranks give and which take blocks.
struct Pattern {
  bool from_root = false;   ///< only root gives
  bool to_root = false;     ///< only root takes
  bool blocks_in = false;   ///< a giver has one block for each rank; otherwise all take the same block
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
  /// Of a reduce: how many of the givers, in their order, each block of the output is the reduction of. Empty: all are
  /// reduced to one.
  std::vector<int> parts = {};
};

/// A collective in which a rank stages its input once and each receiver reads what it needs: all but all_reduce of
/// large tensors.
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

  /// Reads `range` of the block meant for this rank from each giver; `source(rank)` is where another rank's lies.
  template <typename Source>
  void take(const Endpoint& endpoint, Range range, const Source& source);

  Pattern pattern_;
  Buffers buffers_;
  ReduceKernel kernel_;
  std::uint64_t taken_ = 0;  // chunks
};

}  // namespace lockstep::shm
