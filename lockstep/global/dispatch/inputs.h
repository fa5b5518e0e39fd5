// The local parts of the input tensors, redistributed to the placements that a plan needs.
#pragma once

#include <lockstep/global/dispatch/plan.h>
#include <lockstep/global/dispatch/tensor_arguments.h>

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

}  // namespace lockstep::global
