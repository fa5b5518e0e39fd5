// The order of sums over ranks (described in sum_tree.h), for the engines and for the kernels. Kernels are compiled for
// instruction sets that this machine may lack, so this header defines nothing with external linkage.
#pragma once

namespace lockstep::reduction {

/// The number of summands on the left side of the tree over `count` summands, which is at least 2: the largest power of
/// two below `count`.
static constexpr int left_of(int count) {
  int left = 1;
  while (left * 2 < count) left *= 2;
  return left;
}

}  // namespace lockstep::reduction
