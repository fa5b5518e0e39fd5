// libtorch takes products of tensors with leading dimensions apart into those of matrices, by merging dimensions: a
// batch of rows [N, T, k] becomes [N * T, k]. What is divided in several of these dimensions, or unevenly, would have
// to be gathered for it. So these operators come to the global view whole, with derivatives of their own.
#pragma once

#include <torch/library.h>

namespace lockstep::global {

/// For `aten` at the autograd key of global tensors.
void register_derivatives_of_products(torch::Library& aten);

}  // namespace lockstep::global
