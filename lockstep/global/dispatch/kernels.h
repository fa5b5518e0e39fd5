// The kernels of operators on global tensors: that of all operators, and those of operators that need more: lists of
// tensors, products with leading dimensions, copies that differ in a view; their registration with libtorch, and their
// mixed precision. What lies between global tensors and this rank's parts: the inputs of a call, redistributed to the
// placements that a plan needs, and its results as global tensors, or in the caller's tensors. And the recorder of a
// mesh, to which operators go that are recorded instead of executed.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/plan.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>
#include <torch/library.h>

#include <optional>
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

/// The mesh of the global tensors among the inputs, or the ambient mesh if there are none. Error(invalid_argument) that
/// names the argument when meshes differ, or when an ordinary tensor is mixed in (zero-dimensional tensors are
/// allowed).
std::shared_ptr<MeshState> mesh_of_call(const c10::OperatorHandle& op, const OpInfo& info,
                                        const std::vector<TensorArgument>& inputs);

/// One local tensor for each input. If a partial input must be reduced, the tensor itself becomes the reduced one
/// (unless other tensors share its memory), so that the next operator need not reduce it again.
std::vector<at::Tensor> local_inputs(const Plan& plan, const std::vector<TensorArgument>& inputs, MeshState& mesh);

/// Assigns `local`, with placements `sharding`, to the caller's tensor. The tensor keeps its placements, unless nothing
/// was ever written to it, or it was partial and no other tensor shares its memory.
void assign(const at::Tensor& own, const at::Tensor& local, const LogicalShape& shape, const Sharding* sharding);

/// Converts `results` to the results for the caller: global tensors, lists of them, or plain values. `own` are the
/// arguments of the call.
torch::jit::Stack global_results(const OpInfo& info, const Plan& plan, const std::shared_ptr<MeshState>& mesh,
                                 torch::jit::Stack results, const torch::jit::Stack& own);

/// Registers the kernel for all operators; once for each process, at the first mesh. Thread-safe.
void register_kernels();

/// Casts the inputs of matrix products and convolutions of global tensors to `dtype` on this thread, and those of
/// losses and other operators that need the precision to float32; nullopt: casts nothing, as at the start. The lists
/// are those of libtorch's autocast on the CPU.
void set_autocast(std::optional<c10::ScalarType> dtype);

}  // namespace lockstep::global
