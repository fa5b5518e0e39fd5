// The order in which the numbers of ranks are added up: a binary tree that depends on how many ranks there are, and on
// nothing else.
//
// Floating-point sums depend on their order. So that a job gives the same bits however its ranks are placed on hosts
// and whichever engine carries them, all engines add in this one: the tree over n ranks adds the tree over the first m
// to the tree over the others, where m is the largest power of two below n. For six ranks: ((0+1)+(2+3))+(4+5). Ranks
// that share a host and follow one another mostly make whole subtrees, whose sums are all that must cross the network.
#pragma once

#include <vector>

namespace lockstep::detail {

/// Ranks first, ..., first + count - 1.
struct RankRange {
  int first = 0;
  int count = 0;
  bool operator==(const RankRange&) const = default;
};

/// How many of `count` ranks are on the left side of their tree. At least 2.
int left_of(int count);

/// The fewest subtrees of the tree over `size` ranks that have these ranks and no others. `ranks` ascend.
std::vector<RankRange> subtrees_of(const std::vector<int>& ranks, int size);

}  // namespace lockstep::detail
