// Tries an operator with inputs that lie in many ways and compares with one device.
#pragma once

#include "op_case.h"

#include <lockstep/global/global_tensor.h>

#include <cstddef>
#include <cstdint>

namespace lockstep::test {

struct Trials {
  std::uint64_t seed = 0;
  std::size_t most = 16;  ///< combinations of placements for each case: all where they are no more, else random ones
};

/// Values and gradients of the case on `mesh` are those of libtorch on ordinary tensors. A failure names the operator,
/// sizes, placements, mesh and seed. Collective; returns how many combinations were tried.
std::size_t check_op(const OpCase& op, const Mesh& mesh, const Trials& trials);

}  // namespace lockstep::test
