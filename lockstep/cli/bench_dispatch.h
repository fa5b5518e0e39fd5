// Benchmark of operator dispatch: the time of an operator on a global tensor and of the same one on an ordinary tensor.
#pragma once

#include <lockstep/comm/group.h>

#include <string>
#include <vector>

namespace lockstep::cli {

struct DispatchRow {
  std::string name;
  double plain_ns = 0;   ///< of one call, on ordinary tensors
  double global_ns = 0;  ///< on global tensors of the same sizes, everything decided already
};

/// Single operators on small tensors, and a whole training step of an MLP of hidden size 256. Meant for a group of one
/// rank, where nothing is sent. Plain and global calls take turns; medians of `rounds`.
std::vector<DispatchRow> measure_dispatch(const Group& group, int rounds);

}  // namespace lockstep::cli
