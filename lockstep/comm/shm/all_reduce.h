// all_reduce of more than a little: each rank reduces one slice for everybody.
#pragma once

#include <lockstep/comm/shm/collective.h>
#include <lockstep/comm/shm/kernels.h>

#include <cstddef>

namespace lockstep::shm {

/// In memory that all ranks see, a rank reads its slice of every rank's tensor and writes the result to all of them:
/// each byte is read once and written once. Through staging, in pieces: copy in the slices that others reduce, reduce
/// one's own, copy out what others reduced.
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
