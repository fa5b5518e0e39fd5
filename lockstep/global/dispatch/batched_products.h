// Matrix products of tensors with leading dimensions. libtorch decomposes them into products of matrices by merging
// dimensions: [N, T, k] becomes [N * T, k]. A tensor divided in several of these dimensions, or unevenly, would have
// to be gathered for that. So the global view handles these operators as a whole, with their own derivatives.
#pragma once

#include <torch/library.h>

namespace lockstep::global {

/// For `aten` at the autograd key of global tensors.
void register_derivatives_of_products(torch::Library& aten);

}  // namespace lockstep::global
