// The order in which the numbers of ranks are added up, and the kernels that add in it: for the element-wise reduction
// of several buffers into one or more, used by all reducing collectives here, with the element types that they support.
// Without libtorch.
#pragma once

#include <lockstep/base/instruction_sets.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/reduction/kernel_table.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep::reduction {

// The sum tree, a binary tree that depends only on the number of ranks.
//
// Floating-point sums depend on their order. A job must give the same bits for any placement of its ranks on hosts and
// for any engine, so all engines add in this order: the tree over n ranks adds the tree over the first m to the tree
// over the others, where m is the largest power of two below n. For six ranks: ((0+1)+(2+3))+(4+5). Consecutive ranks
// that share a host mostly form whole subtrees, so only the sums of subtrees cross the network.

/// Ranks first, ..., first + count - 1.
struct RankRange {
  int first = 0;
  int count = 0;
  bool operator==(const RankRange&) const = default;
};

/// The smallest set of subtrees of the tree over `size` ranks that has exactly these ranks. `ranks` ascend.
std::vector<RankRange> subtrees_of(const std::vector<int>& ranks, int size);

// Kernels.

enum class DType : std::uint8_t {
  float32,
  float64,
  bfloat16,
  float16,
  int8,
  uint8,
  int16,
  int32,
  int64,
  boolean,
  complex64,  ///< from here on: moved only, not reduced
  complex128,
  other,
};

constexpr std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::float32: return "float32";
    case DType::float64: return "float64";
    case DType::bfloat16: return "bfloat16";
    case DType::float16: return "float16";
    case DType::int8: return "int8";
    case DType::uint8: return "uint8";
    case DType::int16: return "int16";
    case DType::int32: return "int32";
    case DType::int64: return "int64";
    case DType::boolean: return "bool";
    case DType::complex64: return "complex64";
    case DType::complex128: return "complex128";
    case DType::other: return "other";
  }
  return "?";
}

/// The fastest kernel that this machine can run; nullptr when the pair has no meaning: mean of integers or bool, or any
/// reduction of a dtype that can only be moved.
ReduceKernel reduce_kernel(DType dtype, ReduceOp op);

/// The kernel sets that this machine can run, slowest first.
const std::vector<InstructionSet<KernelTable>>& kernel_sets();

}  // namespace lockstep::reduction
