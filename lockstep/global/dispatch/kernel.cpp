#include <lockstep/base/error.h>
#include <lockstep/global/dispatch/copies.h>
#include <lockstep/global/dispatch/inputs.h>
#include <lockstep/global/dispatch/kernel.h>
#include <lockstep/global/dispatch/key.h>
#include <lockstep/global/dispatch/planner.h>
#include <lockstep/global/dispatch/results.h>
#include <lockstep/global/dispatch/shapes.h>
#include <lockstep/global/even_split.h>
#include <lockstep/global/local/local_call.h>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

namespace lockstep::global {
namespace {

const Plan& plan_for(const c10::OperatorHandle& op, const OpInfo& info, const torch::jit::Stack& arguments,
                     const std::vector<TensorArgument>& inputs, MeshState& mesh) {
  thread_local std::vector<std::int64_t> key;
  write_key(info, arguments, key);
  if (const Plan* known = mesh.plans().find(key)) return *known;
  const auto asked = key;  // making a plan may run operators that write another key
  return *mesh.plans().keep(asked, make_plan(op, info, arguments, inputs, mesh));
}

/// The local tensor that an in-place variant writes to: the part itself where it stays where it is, else a copy.
at::Tensor written_part(const Plan& plan, const at::Tensor& own, const at::Tensor& input, MeshState& mesh) {
  const auto& state = state_of(own);
  if (state.cut_off) {
    fail(ErrorKind::unsupported, "global view",
         "{}_ writes to a view whose numbers had to be fetched from other ranks, so that the tensor it is a view of "
         "would not see "
         "it; write to that tensor, or to a clone() of the view",
         plan.call.name);
  }
  const auto* result = plan.outputs.empty() ? state.sharding : plan.outputs[0].sharding;
  if (input.is_same(state.local) && result == state.sharding) return input;
  if (!plan.overwrites) return input.clone();
  return at::empty(local_sizes(own.sizes(), result->placements, mesh.sizes(), mesh.coordinate()),
                   state.local.options());
}

void prepare_out(const OpInfo& info, torch::jit::Stack& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (info.is_out[i] && arguments[i].isTensor()) {
      arguments[i] = at::empty({0}, at::TensorOptions(arguments[i].toTensor().scalar_type()));
    }
  }
}

void mark_cut_off_views(const torch::jit::Stack& results, const std::vector<TensorArgument>& inputs) {
  const auto& base = state_of(inputs[0].tensor);
  const auto mark = [&](const at::Tensor& view) {
    auto& state = state_of(view);
    state.cut_off = base.cut_off || !state.local.is_alias_of(base.local);
    state.unwritten = base.unwritten;
  };
  for (const auto& value : results) {
    if (value.isTensor() && is_global(value.toTensor())) mark(value.toTensor());
    if (value.isTensorList()) {
      for (const auto& each : value.toTensorVector()) mark(each);
    }
  }
}

}  // namespace

void run_global(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const OpInfo& info = op_info(op);
  torch::jit::Stack arguments = torch::jit::pop(*stack, op.schema().arguments().size());
  if (copy_between_worlds(info, arguments, *stack)) return;
  const auto inputs = input_tensors(info, arguments);
  const auto mesh = mesh_of_call(op, info, inputs);
  const Plan& plan = plan_for(op, info, arguments, inputs, *mesh);

  auto locals = local_inputs(plan, inputs, *mesh);
  torch::jit::Stack work = arguments;
  if (info.written_self && !inputs.empty() && is_global(inputs[0].tensor)) {
    locals[0] = written_part(plan, inputs[0].tensor, locals[0], *mesh);
  }
  replace_inputs(info, work, locals);
  prepare_out(info, work);
  replace_device(work, at::kCPU);
  LocalCall call{.op = op, .stack = work, .plan = plan, .mesh = *mesh};
  (plan.form ? plan.form : run_operator)(call);

  auto results = global_results(info, plan, mesh, std::move(work), arguments);
  if (info.is_view && !inputs.empty()) mark_cut_off_views(results, inputs);
  for (auto& result : results) stack->push_back(std::move(result));
}

}  // namespace lockstep::global
