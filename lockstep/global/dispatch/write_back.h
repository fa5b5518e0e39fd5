// The propagation of a write to a fetched view into the tensor that has memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::global {

/// Writes the values of `view`, a fetched view, to the tensor with memory from which one or more view operators made
/// it. Every rank of the mesh calls it; ranks exchange parts of the view that are on other ranks in the base. Nothing
/// is sent if the view is replicated, as most views that cut a sharded dimension are.
void write_back(const at::Tensor& view);

}  // namespace lockstep::global
