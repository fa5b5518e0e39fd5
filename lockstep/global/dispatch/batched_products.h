// Matrix products of tensors with leading dimensions. libtorch decomposes them into products of matrices by merging
// dimensions: [N, T, k] becomes [N * T, k]. A tensor that is sharded in several of these dimensions, or unevenly, would
// have to be gathered for that. So for global tensors these operators are not decomposed, and have derivatives of their
// own.
#pragma once

#include <torch/library.h>

namespace lockstep::global {

/// Registers them in `aten` for the autograd key of global tensors.
void register_derivatives_of_products(torch::Library& aten);

}  // namespace lockstep::global
