// All-reduce over shared memory, in which each rank reduces one slice for all ranks.
#pragma once

#include <lockstep/comm/reduction/kernels.h>
#include <lockstep/comm/shm/collective.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::shm {

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
