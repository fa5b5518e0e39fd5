// The choice of reduction kernels by the instruction sets of this CPU (baseline, AVX2, AVX-512), dtype and operator.
#include <lockstep/comm/reduction/kernels.h>

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

}  // namespace lockstep::reduction
