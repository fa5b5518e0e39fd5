// Views that share no memory with their base: their numbers lie on other ranks there, or in another order. They are
// copies that look like views. Writing to one would be lost, which is an error; a write to the base is noticed when the
// view is used next, and its numbers are fetched again.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
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
  std::size_t result = 0;       ///< which of the results it is, lists laid flat
  std::uint32_t version = 0;    ///< of the base when the numbers were fetched
};

/// Notes on `views`, the results of a view operator called with `arguments` (the first is `base`), what has to be known
/// of them. A view of a fetched view is one, too. Neither base nor view may choose any more how it lies when it is
/// first written to: the other would not see it.
void note_views(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, const at::Tensor& base,
                const torch::jit::Stack& views);

/// Error(unsupported) where `own` is a fetched view.
void refuse_write_to_fetched(const OpInfo& info, const at::Tensor& own);

/// This rank's part of a global tensor as it is now. Fetches again what was written to since; then every rank does.
const at::Tensor& current_part(const at::Tensor& tensor);

/// The same for all tensors among the arguments of a call.
void bring_up_to_date(const torch::jit::Stack& arguments);

}  // namespace lockstep::global
