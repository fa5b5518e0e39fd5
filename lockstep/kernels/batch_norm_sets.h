// The choice of batch norm's loops for the instruction set of this machine.
#pragma once

#include <lockstep/base/instruction_sets.h>
#include <lockstep/kernels/batch_norm_loops.h>

#include <vector>

namespace lockstep::kernels {

/// The loops of all instruction sets that this machine supports, slowest first.
const std::vector<InstructionSet<BatchNormTable>>& batch_norm_sets();

/// The fastest loops for float or double.
template <typename Number>
const BatchNormLoops<Number>& batch_norm_loops();

}  // namespace lockstep::kernels
