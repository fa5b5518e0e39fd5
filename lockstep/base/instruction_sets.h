// Run-time dispatch among loops compiled for several instruction sets (lockstep_instruction_sets() of CMake).
#pragma once

#include <string_view>
#include <vector>

namespace lockstep {

/// AVX2 and fused multiply-add; false on other processors than x86-64.
inline bool machine_has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
#else
  return false;
#endif
}

/// AVX-512 F, BW, VL and DQ, and the above.
inline bool machine_has_avx512() {
#if defined(__x86_64__)
  return machine_has_avx2() && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
#else
  return false;
#endif
}

/// The loops compiled for one instruction set.
template <typename Table>
struct InstructionSet {
  std::string_view name;  ///< "baseline", "avx2", "avx512"
  const Table* table;
};

/// The instruction sets that this machine supports, slowest first.
template <typename Table>
std::vector<InstructionSet<Table>> usable_sets(const Table& baseline, const Table& avx2, const Table& avx512) {
  std::vector<InstructionSet<Table>> sets = {{"baseline", &baseline}};
  if (machine_has_avx2()) sets.push_back({"avx2", &avx2});
  if (machine_has_avx512()) sets.push_back({"avx512", &avx512});
  return sets;
}

}  // namespace lockstep
