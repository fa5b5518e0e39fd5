// Fetched views, which share no memory with their base: its numbers are on other ranks, or in another order. They are
// copies that look like views. A write to the base, or to another view of it, is noticed when the view is used next,
// and its numbers are fetched again. A write to the view is written back, through all views it was made by, into the
// tensor that has memory.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/plan.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::global {

/// The call that a view came from.
struct FetchedView {
  c10::OperatorHandle op;
  torch::jit::Stack arguments;  ///< the first is the base
  const Plan* plan = nullptr;   ///< of the call, as it was when the numbers were fetched
  std::size_t result = 0;       ///< which of the results it is, lists laid flat
  std::uint64_t writes = 0;     ///< to the base and its views when the numbers were fetched
  bool brought = false;         ///< the base was brought to other placements for it, by all ranks
};

/// Notes on `views`, the results of a view operator called with `arguments` (the first is `base`), what has to be known
/// of them. A view of a fetched view is one, too. Neither base nor view may choose any more how it lies when it is
/// first written to: the other would not see it. `brought` is as in FetchedView.
void note_views(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, const Plan& plan, bool brought,
                const at::Tensor& base, const torch::jit::Stack& views);

/// An in-place operator changed the shape of `own` alone (t_, squeeze_): it is now a view of `before`, a handle to what
/// it was.
void note_reshaped(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, const Plan& plan, bool brought,
                   const at::Tensor& before, const at::Tensor& own);

/// Another handle to the same tensor, which keeps no graph alive.
at::Tensor without_graph(const at::Tensor& tensor);

/// Before an operator writes to `own`. Errors where `own` is a fetched view that cannot be written back.
void check_written(const OpInfo& info, const at::Tensor& own);

/// After an operator wrote to `own`: all views of the same memory know, and a fetched view is written back. That may be
/// a collective, which all ranks come to.
void note_written(const at::Tensor& own);

/// Whether nothing else shares the memory of this tensor, so that it may come to lie otherwise.
bool alone(const TensorState& state);

/// This rank's part of a global tensor as it is now. Fetches again what was written to since; then every rank does.
const at::Tensor& current_part(const at::Tensor& tensor);

/// The same for all tensors among the arguments of a call.
void bring_up_to_date(const torch::jit::Stack& arguments);

}  // namespace lockstep::global
