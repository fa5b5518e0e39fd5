// Decomposition of fused LSTM and GRU cells. Newer libtorch versions call fused operators on accelerators, and treat
// the device of global tensors as an accelerator. The parts may be on CPUs, which lack such kernels, so these operators
// are decomposed.
#pragma once

#include <torch/library.h>

namespace lockstep::global {

/// Registers them in `aten` for the dispatch key of global tensors and for its autograd key.
void register_recurrent_cells(torch::Library& aten);

}  // namespace lockstep::global
