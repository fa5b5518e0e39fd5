// The type of a table of reduction kernels, and the split of the tree in which they add (kernels.h). Contains nothing
// else, and nothing with external linkage: kernels_impl.cpp is compiled for instruction sets that this machine may lack
// and must not emit code of other headers (see there).
#pragma once

#include <cstddef>

namespace lockstep::reduction {

/// targets[t][i] = the reduction of sources[0][i], sources[1][i], ..., for `count` elements, always in the order of the
/// tree over the sources (comm/reduction/kernels.h): ((s0 op s1) op (s2 op s3)) op s4 for five.
/// Narrow floats are accumulated in float32 and rounded once, to nearest even; integers wrap around; for bool sum and
/// max are "any", product and min are "all"; min and max of a NaN with anything are NaN; mean is the sum divided
/// by n_sources. The result does not depend on the instruction set or on how a buffer is cut into calls.
/// A target may be the same buffer as a source, otherwise buffers must not overlap. n_sources, n_targets >= 1.
using ReduceKernel = void (*)(const std::byte* const* sources, int n_sources, std::byte* const* targets, int n_targets,
                              std::size_t count);

/// All kernels compiled for one instruction set, by [DType][ReduceOp]; nullptr where the pair has no meaning.
struct KernelTable {
  static constexpr int kDTypes = 10;  ///< those before DType::complex64
  static constexpr int kOps = 5;
  ReduceKernel at[kDTypes][kOps];
};

/// The number of summands on the left side of the tree over `count` summands, which is at least 2: the largest power of
/// two below `count`.
static constexpr int left_of(int count) {
  int left = 1;
  while (left * 2 < count) left *= 2;
  return left;
}

}  // namespace lockstep::reduction
