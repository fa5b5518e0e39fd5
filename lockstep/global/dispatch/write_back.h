// The propagation of a write to a fetched view into the tensor that has memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::global {

/// Writes the numbers of `view`, a fetched view, to where they are in the tensor that it was made of by one or more
/// views. Every rank of the mesh calls it alike; they exchange parts of the view where these lie on other ranks in the
/// base. Nothing is sent where the view is replicated, as one that cuts a divided dimension mostly is.
void write_back(const at::Tensor& view);

}  // namespace lockstep::global
