#include <lockstep/global/dispatch/fetched_view.h>
#include <lockstep/global/dispatch/shapes.h>
#include <lockstep/global/dispatch/write_back.h>
#include <lockstep/global/even_split.h>
#include <lockstep/global/local/local_call.h>
#include <lockstep/global/redistribute.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

namespace lockstep::global {
namespace {

/// How a view was made: the calls that follow each other, and the tensor with memory that they begin with.
struct Chain {
  at::Tensor root;
  std::vector<const FetchedView*> calls;

  bool brought() const {
    return std::any_of(calls.begin(), calls.end(), [](const FetchedView* call) { return call->brought; });
  }
};

Chain chain_of(const at::Tensor& view) {
  Chain chain{.root = view, .calls = {}};
  while (const FetchedView* call = state_of(chain.root).fetched.get()) {
    chain.calls.push_back(call);
    chain.root = call->arguments[0].toTensor();
  }
  std::reverse(chain.calls.begin(), chain.calls.end());
  return chain;
}

at::Tensor result_of(const torch::jit::Stack& results, std::size_t number) {
  std::vector<at::Tensor> all;
  for (const auto& value : results) {
    if (value.isTensor()) {
      all.push_back(value.toTensor());
    } else {
      for (const auto& each : value.toTensorVector()) all.push_back(each);
    }
  }
  return all.at(number);
}

torch::jit::Stack arguments_with(const FetchedView& call, const at::Tensor& base) {
  torch::jit::Stack stack = call.arguments;
  stack[0] = base;
  replace_device(stack, at::kCPU);
  return stack;
}

/// The part of the view brought to `placements`.
at::Tensor part_in(const at::Tensor& view, const Placements& placements) {
  const auto& state = state_of(view);
  return redistribute_local(state.local, view.sizes(), view.suggest_memory_format(), *state.mesh,
                            state.sharding->placements, placements);
}

/// Rows that are one and the same in memory, once.
at::Tensor without_repeats(at::Tensor tensor, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    const auto at = static_cast<std::size_t>(dim);
    if (strides[at] == 0 && sizes[at] > 1) tensor = tensor.narrow(dim, 0, 1);
  }
  return tensor;
}

/// All ranks exchanged parts for the view, so they do for the way back: everybody gets the whole view, puts its part of
/// the base into a whole that is otherwise empty, writes through the views of that as one device would, and takes its
/// part out again. Where the base is partial the first rank has the numbers and the others nothing.
void write_through_whole(const Chain& chain, const at::Tensor& view) {
  auto& state = state_of(chain.root);
  Placements placements = state.sharding->placements;
  for (auto& each : placements) {
    if (!each.is_partial()) each = Replicate();
  }
  const auto numbers = part_in(view, placements);
  const auto sizes = chain.root.sizes();
  const auto strides = chain.root.strides();
  std::int64_t elements = chain.root.storage_offset() + 1;
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
    if (sizes[dim] == 0) return;
    elements += (sizes[dim] - 1) * strides[dim];
  }
  const auto whole =
      at::empty({elements}, state.local.options()).as_strided(sizes, strides, chain.root.storage_offset());
  at::Tensor mine = whole;
  for (std::int64_t dim = 0; dim < chain.root.dim(); ++dim) {
    const auto part = part_of(sizes[static_cast<std::size_t>(dim)], dim, state.sharding->placements,
                              state.mesh->sizes(), state.mesh->coordinate());
    mine = mine.narrow(dim, part.begin, part.size);
  }
  mine = without_repeats(mine, sizes, strides);
  const auto own = without_repeats(state.local, sizes, strides);
  mine.copy_(own);
  at::Tensor written = whole;
  for (const auto* call : chain.calls) {
    auto stack = arguments_with(*call, written);
    call->op.callBoxed(stack);
    written = result_of(stack, call->result);
  }
  written.copy_(numbers);
  own.copy_(mine);
}

/// The views are made of what each rank has, but its part lies in memory in another order than the whole: it had to be
/// copied, perhaps on this rank alone. So the way back is this rank's alone, too: the views of a part that is numbered
/// say where each element came from.
void write_on_part(const Chain& chain, const at::Tensor& view) {
  auto& state = state_of(chain.root);
  const auto numbers =
      part_in(view, chain.calls.back()->plan->outputs.at(chain.calls.back()->result).sharding->placements);
  auto came_from = at::arange(state.local.numel()).view(state.local.sizes());
  for (const auto* call : chain.calls) {
    auto stack = arguments_with(*call, came_from);
    LocalCall local{.op = call->op, .stack = stack, .plan = *call->plan, .mesh = *state.mesh};
    (call->plan->form ? call->plan->form : run_operator)(local);
    came_from = result_of(stack, call->result);
  }
  auto flat = state.local.reshape(-1);
  flat.index_copy_(0, came_from.reshape(-1), numbers.reshape(-1));
  if (!flat.is_alias_of(state.local)) state.local.copy_(flat.view(state.local.sizes()));
}

}  // namespace

void write_back(const at::Tensor& view) {
  const auto chain = chain_of(view);
  chain.brought() ? write_through_whole(chain, view) : write_on_part(chain, view);
}

}  // namespace lockstep::global
