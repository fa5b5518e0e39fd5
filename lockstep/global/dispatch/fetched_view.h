// Fetched views: views that share no memory with their base, because the values are on other ranks or in another memory
// order. They are copies that behave like views. After a write to the base, or to another view of it, the values are
// fetched again when the view is used next. A write to the view is written back, through the chain of views, to the
// tensor that has memory.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/plan.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::global {

/// The call that made a view.
struct FetchedView {
  c10::OperatorHandle op;
  torch::jit::Stack arguments;  ///< the first is the base
  const Plan* plan = nullptr;   ///< plan of the call when the values were fetched
  std::size_t result = 0;       ///< index of the result, lists flattened
  std::uint64_t writes = 0;     ///< number of writes to the base and its views when the values were fetched
  bool brought = false;         ///< all ranks redistributed the base for the view
};

/// Registers `views`, the results of a view operator called with `arguments` (the first is `base`). A view of a fetched
/// view is a fetched view, too. From then on, neither base nor view may change its placements at its first write,
/// because the other tensor would not have the change. `brought` is as in FetchedView.
void note_views(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, const Plan& plan, bool brought,
                const at::Tensor& base, const torch::jit::Stack& views);

/// Registers that an in-place operator changed only the shape of `own` (t_, squeeze_): it is now a view of `before`, a
/// handle to its earlier state.
void note_reshaped(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, const Plan& plan, bool brought,
                   const at::Tensor& before, const at::Tensor& own);

/// Another handle to the same tensor, which does not keep the autograd graph alive.
at::Tensor without_graph(const at::Tensor& tensor);

/// To be called before an operator writes to `own`. Throws when `own` is a fetched view that cannot be written back.
void check_written(const OpInfo& info, const at::Tensor& own);

/// To be called after an operator wrote to `own`: marks all views of the same memory as outdated, and writes a fetched
/// view back. That may be a collective of all ranks.
void note_written(const at::Tensor& own);

/// Whether no other tensor shares the memory of this tensor, so that its placements may change.
bool alone(const TensorState& state);

/// This rank's current part of a global tensor. An outdated fetched view is fetched again, by all ranks.
const at::Tensor& current_part(const at::Tensor& tensor);

/// The same for all tensors among the arguments of a call.
void bring_up_to_date(const torch::jit::Stack& arguments);

/// Writes the values of `view`, a fetched view, to the tensor with memory from which one or more view operators made
/// it. Every rank of the mesh calls it; ranks exchange parts of the view that are on other ranks in the base. Nothing
/// is sent if the view is replicated, as most views that cut a sharded dimension are.
void write_back(const at::Tensor& view);

}  // namespace lockstep::global
