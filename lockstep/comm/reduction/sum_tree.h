// The sum tree: the order in which the numbers of ranks are added up, a binary tree that depends only on the number of
// ranks.
//
// Floating-point sums depend on their order. A job must give the same bits for any placement of its ranks on hosts and
// for any engine, so all engines add in this order: the tree over n ranks adds the tree over the first m to the tree
// over the others, where m is the largest power of two below n. For six ranks: ((0+1)+(2+3))+(4+5). Consecutive ranks
// that share a host mostly form whole subtrees, so only the sums of subtrees cross the network.
#pragma once

#include <lockstep/comm/reduction/order.h>

#include <vector>

namespace lockstep::reduction {

/// Ranks first, ..., first + count - 1.
struct RankRange {
  int first = 0;
  int count = 0;
  bool operator==(const RankRange&) const = default;
};

/// The smallest set of subtrees of the tree over `size` ranks that has exactly these ranks. `ranks` ascend.
std::vector<RankRange> subtrees_of(const std::vector<int>& ranks, int size);

}  // namespace lockstep::reduction
