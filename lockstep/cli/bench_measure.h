// The measurements of `lockstep bench`: a collective over several sizes, on one rank of a group, and operator dispatch.
#pragma once

#include <lockstep/comm/group.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

/// Benchmark of one collective over several sizes, on one rank of a group.
struct BenchRequest {
  std::string op = "all_reduce";
  std::vector<std::int64_t> sizes;  ///< bytes of the larger of input and output on one rank; rounded up to whole rows
  bool ordinary_memory = false;     ///< memory of libtorch's allocator instead of `allocate`
  int repeats = 9;                  ///< timed batches; the median counts
};

/// One size. Bandwidths in GB/s (1e9 bytes): `algbw` is bytes / time; `busbw` is the least that each rank had to
/// transfer, algbw times 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter and all_to_all, and 1 for
/// broadcast, as NVIDIA's nccl-tests define it.
struct BenchRow {
  std::int64_t bytes = 0;
  double microseconds = 0;
  double algbw = 0;
  double busbw = 0;
  bool correct = false;
};

/// Names `BenchRequest::op` may have.
const std::vector<std::string>& bench_ops();

/// Collective: all ranks pass the same request; rank 0's clock counts. Values are checked at each size on every rank.
std::vector<BenchRow> measure(const BenchRequest& request, const Group& group);

/// Benchmark of operator dispatch: the time of an operator on a global tensor and of the same one on an ordinary
/// tensor.
struct DispatchRow {
  std::string name;
  double plain_ns = 0;   ///< of one call, on ordinary tensors
  double global_ns = 0;  ///< on global tensors of the same sizes, everything decided already
};

/// Single operators on small tensors, and a whole training step of an MLP of hidden size 256. For a group of one
/// rank, which sends nothing. Plain and global calls take turns; medians of `rounds`.
std::vector<DispatchRow> measure_dispatch(const Group& group, int rounds);

}  // namespace lockstep::cli
