// Conversion of the local results to global tensors, or assignment to the caller's own tensors.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/plan.h>

#include <ATen/core/stack.h>

namespace lockstep::global {

/// Assigns `local`, with placements `sharding`, to the caller's own tensor. That keeps its placements, unless nothing
/// was ever written to it, or it was partial and no other tensor shares its memory.
void assign(const at::Tensor& own, const at::Tensor& local, const LogicalShape& shape, const Sharding* sharding);

/// Converts `results` to the results for the caller: global tensors, lists of them, or plain values. `own` are the
/// arguments of the call.
torch::jit::Stack global_results(const OpInfo& info, const Plan& plan, const std::shared_ptr<MeshState>& mesh,
                                 torch::jit::Stack results, const torch::jit::Stack& own);

}  // namespace lockstep::global
