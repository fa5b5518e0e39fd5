// Between global tensors and this rank's parts: the inputs of a call, redistributed to the placements that a plan
// needs, and its results as global tensors, or in the caller's tensors.
#pragma once

#include <lockstep/global/dispatch/call_tensors.h>
#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/plan.h>

#include <ATen/core/stack.h>

#include <vector>

namespace lockstep::global {

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

}  // namespace lockstep::global
