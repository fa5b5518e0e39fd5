// The split of a range of ranks at the largest power of two, and the largest subtrees that a set of ranks covers.
#include <lockstep/comm/reduction/sum_tree.h>

#include <algorithm>

namespace lockstep::reduction {
namespace {

void collect(const std::vector<int>& ranks, RankRange tree, std::vector<RankRange>& found) {
  const auto begin = std::lower_bound(ranks.begin(), ranks.end(), tree.first);
  const auto end = std::lower_bound(begin, ranks.end(), tree.first + tree.count);
  if (begin == end) return;
  if (end - begin == tree.count) return found.push_back(tree);
  const int left = left_of(tree.count);
  collect(ranks, {tree.first, left}, found);
  collect(ranks, {tree.first + left, tree.count - left}, found);
}

}  // namespace

std::vector<RankRange> subtrees_of(const std::vector<int>& ranks, int size) {
  std::vector<RankRange> found;
  collect(ranks, {0, size}, found);
  return found;
}

}  // namespace lockstep::reduction
