#include <lockstep/comm/shm/kernels.h>

namespace lockstep::shm {

extern const KernelTable baseline_kernels;
#ifdef LOCKSTEP_X86_KERNELS
extern const KernelTable avx2_kernels;
extern const KernelTable avx512_kernels;
#endif

namespace {

std::vector<KernelSet> usable_sets() {
  std::vector<KernelSet> sets = {{"baseline", &baseline_kernels}};
#ifdef LOCKSTEP_X86_KERNELS
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2) sets.push_back({"avx2", &avx2_kernels});
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx2 && avx512) sets.push_back({"avx512", &avx512_kernels});
#endif
  return sets;
}

}  // namespace

const std::vector<KernelSet>& kernel_sets() {
  static const std::vector<KernelSet> sets = usable_sets();
  return sets;
}

ReduceKernel reduce_kernel(DType dtype, ReduceOp op) {
  static const KernelTable* const fastest = kernel_sets().back().table;
  if (dtype >= DType::complex64) return nullptr;
  return fastest->at[static_cast<int>(dtype)][static_cast<int>(op)];
}

}  // namespace lockstep::shm
