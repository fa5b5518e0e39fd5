// Decomposition of fused LSTM and GRU cells. A newer libtorch calls fused operators on accelerators. The global view's
// device counts as one; its parts may be on CPUs, which have no such kernels. So these operators are decomposed.
#pragma once

#include <torch/library.h>

namespace lockstep::global {

/// For `aten` at the key of global tensors, and at its autograd key.
void register_recurrent_cells(torch::Library& aten);

}  // namespace lockstep::global
