#include <lockstep/base/error.h>
#include <lockstep/global/dispatch/fetched_view.h>
#include <lockstep/global/dispatch/kernel.h>

#include <ATen/ATen.h>

#include <utility>

namespace lockstep::global {
namespace {

/// Autograd counts the writes to a tensor and all its views in one place.
std::uint32_t writes_to(const at::Tensor& tensor) {
  const auto& counter = tensor.unsafeGetTensorImpl()->version_counter();
  return counter.enabled() ? counter.current_version() : 0;
}

/// Another handle to the same tensor, which keeps no graph alive.
at::Tensor without_graph(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(), /*allow_tensor_metadata_change=*/false));
}

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
      state.local = state_of(now).local;
      state.sharding = state_of(now).sharding;
      state.fetched = state_of(now).fetched;
    });
  }
}

}  // namespace

void note_views(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, const at::Tensor& base,
                const torch::jit::Stack& views) {
  auto& base_state = state_of(base);
  base_state.unwritten = false;
  std::size_t result = 0;
  const auto note = [&](const at::Tensor& view) {
    auto& state = state_of(view);
    state.unwritten = false;
    const std::size_t number = result++;
    if (!base_state.fetched && state.local.is_alias_of(base_state.local)) return;
    torch::jit::Stack call = arguments;
    call[0] = without_graph(base);
    state.fetched = std::make_shared<FetchedView>(
        FetchedView{.op = op, .arguments = std::move(call), .result = number, .version = writes_to(base)});
  };
  for (const auto& value : views) visit_global(value, note);
}

void refuse_write_to_fetched(const OpInfo& info, const at::Tensor& own) {
  if (!state_of(own).fetched) return;
  fail(ErrorKind::unsupported, "global view",
       "{} writes to a view whose numbers had to be fetched from other ranks, so that the tensor it is a view of would "
       "not see it; "
       "write to that tensor, or to a clone() of the view",
       info.shown);
}

const at::Tensor& current_part(const at::Tensor& tensor) {
  const auto& state = state_of(tensor);
  if (state.fetched && state.fetched->version != writes_to(state.fetched->arguments[0].toTensor())) fetch_again(tensor);
  return state.local;
}

void bring_up_to_date(const torch::jit::Stack& arguments) {
  for (const auto& value : arguments) {
    visit_global(value, [](const at::Tensor& tensor) { current_part(tensor); });
  }
}

}  // namespace lockstep::global
