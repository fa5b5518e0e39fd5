// The split of a range of ranks at the largest power of two, the largest subtrees that a set of ranks covers, and the
// choice of reduction kernels by the instruction sets of this CPU (baseline, AVX2, AVX-512), dtype and operator.
#include <lockstep/comm/reduction/kernels.h>

#include <algorithm>

namespace lockstep::reduction {

extern const KernelTable baseline_kernels;
extern const KernelTable avx2_kernels;
extern const KernelTable avx512_kernels;

const std::vector<InstructionSet<KernelTable>>& kernel_sets() {
  static const auto sets = usable_sets(baseline_kernels, avx2_kernels, avx512_kernels);
  return sets;
}

ReduceKernel reduce_kernel(DType dtype, ReduceOp op) {
  static const KernelTable* const fastest = kernel_sets().back().table;
  if (dtype >= DType::complex64) return nullptr;
  return fastest->at[static_cast<int>(dtype)][static_cast<int>(op)];
}

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
