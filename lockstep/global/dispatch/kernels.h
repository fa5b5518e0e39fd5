// The kernels of operators on global tensors: that of all operators, and those of operators that need more: lists of
// tensors, products with leading dimensions, copies that differ in a view. And the recorder of a mesh, to which
// operators go that are recorded instead of executed.
#pragma once

#include <lockstep/global/dispatch/call_tensors.h>
#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/plan.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <vector>

namespace lockstep::global {

/// Finds or makes the plan of the call, redistributes the inputs as the plan requires, runs the operator on this rank's
/// parts, and wraps the results. Called by libtorch.
void run_global(const c10::OperatorHandle& op, torch::jit::Stack* stack);

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

/// The recorder of a mesh (MeshState::recorder), for tensors without memory. Calls may be made on several threads
/// (backward may run on a thread of autograd), but not at the same time.
class Recorder {
 public:
  virtual ~Recorder() = default;
  /// Records a call: `arguments` are those of the call, `key` is its key in the plan cache. Pushes the call's results.
  virtual void record(const c10::OperatorHandle& op, const OpInfo& info, KeyView key,
                      const torch::jit::Stack& arguments, torch::jit::Stack& results) = 0;
};

}  // namespace lockstep::global
