// A reduction over an engine that only moves bytes: the messages and sums of each rank, in the order of the sum
// tree. Engines carry the messages (tcp/operation.h, mpi/mpi_backend.cpp). Uses no engine, no libtorch and no clock.
//
// Each rank adds up one slice of the result: it receives that slice from all others, and sends the sum to the ranks
// that need it. Each rank moves as many bytes as in a ring, in two steps instead of 2 (n - 1). Small tensors are sent
// whole to all ranks, in one step. Large ones are sent in pieces, of which two are pending at a time.
#pragma once

#include <lockstep/comm/reduction/kernel_table.h>
#include <lockstep/comm/reduction/kernels.h>

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace lockstep::reduction {

/// Where the result goes: to all ranks, to one, or slice i of equal slices to rank i.
enum class ResultOf { all_reduce, reduce, reduce_scatter };

/// One rank's part in a reduction. The memory belongs to the caller.
struct NetworkCall {
  ResultOf kind = ResultOf::all_reduce;
  int rank = 0;
  int root = 0;  ///< for reduce

  /// The summands of each rank: subtrees of the tree over all summands, ascending. Together they form the whole tree. A
  /// rank that contributes only its own numbers has {rank, 1}.
  std::vector<std::vector<RankRange>> brought;
  const std::byte* input = nullptr;  ///< this rank's summands, one after the other
  std::size_t bytes = 0;             ///< of each of them
  std::size_t item_bytes = 1;

  /// all_reduce: `bytes`, may be `input`. reduce: the same, on root only. reduce_scatter: this rank's slice.
  std::byte* output = nullptr;

  /// If each rank contributes only its own numbers, the kernel may compute a mean and use any dtype. Otherwise it
  /// reduces two or more sources to a target of the same dtype, without rounding to a narrower one.
  ReduceKernel kernel = nullptr;
};

/// Every rank contributes its own numbers: {{0, 1}}, {{1, 1}}, ...
std::vector<std::vector<RankRange>> one_each(int size);

class NetworkReduction {
 public:
  explicit NetworkReduction(NetworkCall call);

  struct Message {
    std::byte* data;
    std::size_t bytes;
    int peer;
  };
  /// Messages between two ranks are sent and received in the order in which they are listed here, exchange after
  /// exchange.
  struct Exchange {
    std::vector<Message> receives;
    std::vector<Message> sends;
  };

  /// Exchanges count from 0. The driver starts exchange k, then waits until exchange k - 1 is complete (including the
  /// data that this rank sends in it) and calls `finished(k - 1)`, so that two are pending.
  int exchanges() const;
  Exchange exchange(int k);
  void finished(int k);

 private:
  struct Slice {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t bytes() const { return end - begin; }
  };

  int size() const { return static_cast<int>(call_.brought.size()); }
  const std::vector<RankRange>& brought_by(int rank) const { return call_.brought[static_cast<std::size_t>(rank)]; }
  Slice piece_of(int rank, int piece) const;
  bool gets_results(int rank) const;
  const std::byte* source(int rank, std::size_t nth, int piece) const;
  std::byte* result(int piece);
  void add_up(int piece);
  const std::byte* add_up(RankRange tree, std::size_t at, std::size_t count, std::byte* into, std::byte* scratch);

  /// One of the summands of the current piece.
  struct Summand {
    RankRange tree;
    const std::byte* data;
  };

  NetworkCall call_;
  bool whole_ = false;         ///< small: each rank that needs the result adds up all of it
  bool plain_ = false;         ///< each rank contributes only its own numbers, so one kernel call computes the tree
  std::vector<Slice> slices_;  ///< by the rank that adds it up
  std::size_t piece_bytes_ = 0;
  int pieces_ = 0;

  // For the current piece and the one after it.
  std::size_t received_bytes_ = 0;
  std::unique_ptr<std::byte[]> received_;
  std::unique_ptr<std::byte[]> results_;  ///< where `output` has no space for this rank's slice
  std::vector<Summand> summands_;
};

}  // namespace lockstep::reduction
