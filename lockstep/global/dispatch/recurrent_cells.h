// A newer libtorch calls, for each step of an LSTM or GRU, operators that are fused on accelerators. The global view's
// device counts as one; its parts may lie on CPUs, which have no such kernels. So they are taken apart again.
#pragma once

#include <torch/library.h>

namespace lockstep::global {

/// For `aten` at the key of global tensors, and at its autograd key.
void register_recurrent_cells(torch::Library& aten);

}  // namespace lockstep::global
