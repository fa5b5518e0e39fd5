// Operators on global tensors that need more than the kernel: lists of tensors, products with leading dimensions,
// copies that differ in a view.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

namespace lockstep::global {

/// _foreach_ operators of libtorch's optimizers, executed as one operator call for each tensor. Executes a call of an
/// operator whose name begins with _foreach_. Called by libtorch.
void run_foreach(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Matrix products of tensors with leading dimensions. libtorch decomposes them into products of matrices by merging
/// dimensions: [N, T, k] becomes [N * T, k]. A tensor that is sharded in several of these dimensions, or unevenly,
/// would have to be gathered for that. So for global tensors these operators are not decomposed, and have separate
/// derivatives. Registers them in `aten` for the autograd key of global tensors.
void register_derivatives_of_products(torch::Library& aten);

/// slice_scatter, select_scatter, diagonal_scatter, as_strided_scatter. Newer libtorch versions first copy the whole
/// memory of the storage, but the storage of a global tensor has only the bytes of a part. Registers
/// them in `aten` for the dispatch key of global tensors.
void register_scatters_into_views(torch::Library& aten);

/// Operators that depend on the kind of a tensor in libtorch. `variable.set_data(tensor)`, with which Module::clone()
/// fills the parameters of the copy: an ordinary tensor may become a global one, but not the reverse, with which
/// torch::load() and Module::to() would undo distribute_module(). Sparse gradients of embeddings: there are no sparse
/// global tensors, so the gradient is dense. Registers them in `aten` for the autograd key of global tensors.
void register_kinds(torch::Library& aten);

}  // namespace lockstep::global
