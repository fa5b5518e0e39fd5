// The chain of view calls behind a fetched view, by which it is fetched again, and writes go back to the root.
#include <lockstep/global/dispatch/fetched_view.h>

#include <lockstep/base/error.h>
#include <lockstep/global/dispatch/kernels.h>
#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/prefetch.h>
#include <lockstep/global/local/local_call.h>
#include <lockstep/global/placement.h>
#include <lockstep/global/redistribute.h>

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep::global {
namespace {

/// The chain of view calls that made a view, and the tensor with memory at its start.
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
  replace_device(stack, base.device());
  return stack;
}

/// This rank's part of the view, redistributed to `placements`.
at::Tensor part_in(const at::Tensor& view, const Placements& placements) {
  const auto& state = state_of(view);
  return redistribute_local(state.local, view.sizes(), view.suggest_memory_format(), *state.mesh,
                            state.sharding->placements, placements);
}

/// Removes repeated rows, which share memory (stride 0).
at::Tensor without_repeats(at::Tensor tensor, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    const auto at = static_cast<std::size_t>(dim);
    if (strides[at] == 0 && sizes[at] > 1) tensor = tensor.narrow(dim, 0, 1);
  }
  return tensor;
}

/// For a view that ranks fetched with communication. Every rank gathers the full view, copies its part of the base into
/// an otherwise empty full tensor, writes through the views of that as on one device, and takes its part again. If the
/// base is partial, the first rank gets the values and the other ranks get zeros.
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

/// For a view that was fetched without communication, because this rank's part is in another memory order than the full
/// tensor and had to be copied, perhaps on this rank only. So the write is local, too: the same views of a part with
/// element indices give the origin of each element.
void write_on_part(const Chain& chain, const at::Tensor& view) {
  auto& state = state_of(chain.root);
  const auto numbers =
      part_in(view, chain.calls.back()->plan->outputs.at(chain.calls.back()->result).sharding->placements);
  auto came_from = at::arange(state.local.numel(), state.local.options().dtype(at::kLong)).view(state.local.sizes());
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

namespace {

template <typename Visit>
void visit_global(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (is_global(value.toTensor())) visit(value.toTensor());
  } else if (value.isList()) {
    for (const auto& each : value.toListRef()) visit_global(each, visit);
  }
}

void fetch_again(const at::Tensor& view) {
  auto& state = state_of(view);
  const auto call = state.fetched;
  torch::jit::Stack stack = call->arguments;
  run_global(call->op, &stack);
  std::size_t result = 0;
  for (const auto& value : stack) {
    visit_global(value, [&](const at::Tensor& now) {
      if (result++ != call->result) return;
      set_part(view, state_of(now).local);
      state.sharding = state_of(now).sharding;
      state.fetched = state_of(now).fetched;
    });
  }
}

/// Marks a view that was written back as up to date, together with the views in its chain that share its memory.
void mark_up_to_date(const at::Tensor& view) {
  at::Tensor at = view;
  while (state_of(at).fetched) {
    auto& state = state_of(at);
    state.fetched->writes = *state.writes;
    const at::Tensor base = state.fetched->arguments[0].toTensor();
    if (!state_of(base).local.is_alias_of(state.local)) return;
    at = base;
  }
}

}  // namespace

at::Tensor without_graph(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(), /*allow_tensor_metadata_change=*/false));
}

void note_views(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, const Plan& plan, bool brought,
                const at::Tensor& base, const torch::jit::Stack& views) {
  auto& base_state = state_of(base);
  base_state.unwritten = false;
  if (!base_state.writes) base_state.writes = std::make_shared<std::uint64_t>(0);
  std::size_t result = 0;
  const auto note = [&](const at::Tensor& view) {
    auto& state = state_of(view);
    state.unwritten = false;
    state.writes = base_state.writes;
    const std::size_t number = result++;
    if (!base_state.fetched && state.local.is_alias_of(base_state.local)) return;
    torch::jit::Stack call = arguments;
    call[0] = without_graph(base);
    state.fetched = std::make_shared<FetchedView>(FetchedView{.op = op,
                                                              .arguments = std::move(call),
                                                              .plan = &plan,
                                                              .result = number,
                                                              .writes = *state.writes,
                                                              .brought = brought});
  };
  for (const auto& value : views) visit_global(value, note);
}

void note_reshaped(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, const Plan& plan, bool brought,
                   const at::Tensor& before, const at::Tensor& own) {
  std::string name = op.schema().name();
  name.pop_back();  // the underscore
  const auto view = c10::Dispatcher::singleton().findSchema({name, op.schema().overload_name()});
  if (view && op_info(*view).is_view) note_views(*view, arguments, plan, brought, before, {own});
}

void check_written(const OpInfo& info, const at::Tensor& own) {
  const auto& state = state_of(own);
  if (auto* prefetch = state.mesh->prefetch()) prefetch->before_write(own);
  if (!state.fetched) return;
  if (info.name.starts_with("resize")) {
    fail(ErrorKind::unsupported, "global view",
         "{} of a view whose numbers had to be fetched from other ranks; resize the tensor that it is a view of, or a "
         "clone() of the view",
         info.shown);
  }
  if (!info.reshapes_self) at::assert_no_internal_overlap(own);
}

void note_written(const at::Tensor& own) {
  auto& state = state_of(own);
  if (!state.writes) return;  // there are no views
  if (state.fetched) write_back(own);
  ++*state.writes;
  mark_up_to_date(own);
}

bool alone(const TensorState& state) {
  if (state.local.storage().use_count() > 1) return false;
  if (!state.fetched || state.fetched->brought) return true;
  // On other ranks, whose parts have another memory order, the view may share memory with its base. The decision must
  // be the same on all ranks.
  const at::Tensor& base = state.fetched->arguments[0].toTensor();
  return base.storage().use_count() <= 1 && alone(state_of(base));
}

const at::Tensor& current_part(const at::Tensor& tensor) {
  const auto& state = state_of(tensor);
  if (state.fetched && state.fetched->writes != *state.writes) fetch_again(tensor);
  return state.local;
}

void bring_up_to_date(const torch::jit::Stack& arguments) {
  for (const auto& value : arguments) {
    visit_global(value, [](const at::Tensor& tensor) { current_part(tensor); });
  }
}

}  // namespace lockstep::global
