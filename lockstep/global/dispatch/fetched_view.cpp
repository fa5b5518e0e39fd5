#include <lockstep/base/error.h>
#include <lockstep/global/dispatch/fetched_view.h>
#include <lockstep/global/dispatch/kernel.h>
#include <lockstep/global/dispatch/shapes.h>
#include <lockstep/global/dispatch/write_back.h>

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include <utility>

namespace lockstep::global {
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
  if (!state_of(own).fetched) return;
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
