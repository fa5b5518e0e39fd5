// Kernels for the element-wise reduction of several buffers into one or more, used by all reducing collectives here.
#pragma once

#include <lockstep/base/instruction_sets.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/shm/dtype.h>
#include <lockstep/comm/shm/kernel_table.h>

#include <vector>

namespace lockstep::shm {

/// The fastest kernel this machine runs; nullptr when the pair has no meaning: mean of integers or bool, anything of a
/// dtype that can only be moved.
ReduceKernel reduce_kernel(DType dtype, ReduceOp op);

/// The kernel sets that this machine can run, slowest first.
const std::vector<InstructionSet<KernelTable>>& kernel_sets();

}  // namespace lockstep::shm
