// The order of sums over ranks, for the engines (sum_tree.h says it in words) and for the kernels, which are compiled
// for instruction sets that this machine may lack: so this header holds only what has no external linkage.
#pragma once

namespace lockstep::reduction {

/// The number of summands on the left side of the tree over `count` of them, which is at least 2: the largest power of
/// two below it.
static constexpr int left_of(int count) {
  int left = 1;
  while (left * 2 < count) left *= 2;
  return left;
}

}  // namespace lockstep::reduction
