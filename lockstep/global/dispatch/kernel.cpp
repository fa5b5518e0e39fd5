// The boxed kernel behind every operator on global tensors. Order: key, plan from the cache or the planner, inputs
// redistributed, local call, results wrapped; a direct plan skips redistribution.
#include <lockstep/global/dispatch/kernels.h>

#include <lockstep/base/error.h>
#include <lockstep/global/dispatch/fetched_view.h>
#include <lockstep/global/dispatch/named_operators.h>
#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/operator_scope.h>
#include <lockstep/global/dispatch/plan.h>
#include <lockstep/global/dispatch/planner.h>
#include <lockstep/global/local/local_call.h>
#include <lockstep/global/mesh_state.h>
#include <lockstep/global/placement.h>
#include <lockstep/global/redistribute.h>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

namespace lockstep::global {
namespace {

at::Tensor whole_of(const at::Tensor& tensor) {
  auto& state = state_of(tensor);
  current_part(tensor);
  const OperatorScope on_trace(tensor, state.mesh->replicated()->placements);
  return on_trace.run(*state.mesh, [&] {
    return redistribute_local(state.local, tensor.sizes(), tensor.suggest_memory_format(), *state.mesh,
                              state.sharding->placements, state.mesh->replicated()->placements);
  });
}

bool copy_in_place(const OpInfo& info, const torch::jit::Stack& arguments, torch::jit::Stack& results) {
  const at::Tensor self = arguments[0].toTensor();
  const at::Tensor source = arguments[1].toTensor();
  if (is_global(self) == is_global(source)) return false;
  if (is_global(self)) {
    current_part(self);
    check_written(info, self);
    auto& state = state_of(self);
    const OperatorScope on_trace("copy into", *state.mesh, self, state.sharding->placements);
    on_trace.run(*state.mesh, [&] {
      const auto whole = source.expand(self.sizes()).to(state.mesh->device(), self.scalar_type());
      assign(self, part_of_full(whole, *state.mesh, state.sharding->placements).clone(), shape_of(self),
             state.sharding);
      note_written(self);
    });
  } else {
    self.copy_(whole_of(source));
  }
  results.push_back(arguments[0]);
  return true;
}

/// _to_copy(self, dtype, layout, device, ...)
bool leave(const torch::jit::Stack& arguments, torch::jit::Stack& results) {
  if (!arguments[3].isDevice() || arguments[3].toDevice().type() == kDeviceType || !is_global(arguments[0].toTensor()))
    return false;
  const auto options =
      at::TensorOptions(arguments[3].toDevice())
          .dtype(arguments[1].isNone() ? arguments[0].toTensor().scalar_type() : arguments[1].toScalarType());
  results.push_back(whole_of(arguments[0].toTensor()).to(options, /*non_blocking=*/false, /*copy=*/true));
  return true;
}

/// Executes a copy_ between a global and an ordinary tensor (which has the full value), or a conversion of a global
/// tensor to another device, and pushes its result: the only operators that may mix them. Returns false and does
/// nothing for every other call.
bool copy_between_worlds(const OpInfo& info, const torch::jit::Stack& arguments, torch::jit::Stack& results) {
  if (info.name == "copy" && info.written_self) return copy_in_place(info, arguments, results);
  if (info.name == "_to_copy") return leave(arguments, results);
  return false;
}

/// The recorder of the mesh of the first global tensor or, if there is none, of the ambient mesh; nullptr if that has
/// no recorder.
Recorder* recorder_of(const std::vector<TensorArgument>& inputs) {
  for (const auto& each : inputs) {
    if (is_global(each.tensor)) return state_of(each.tensor).mesh->recorder();
  }
  const auto mesh = ambient_mesh();
  return mesh ? mesh->recorder() : nullptr;
}

/// The local tensor that an in-place variant writes to: the part itself if its placements do not change, else a copy.
at::Tensor written_part(const OpInfo& info, const Plan& plan, const at::Tensor& own, const at::Tensor& input,
                        MeshState& mesh) {
  const auto& state = state_of(own);
  check_written(info, own);
  if (info.reshapes_self) return input.alias();
  const auto* result = plan.outputs.empty() ? state.sharding : plan.outputs[0].sharding;
  if (input.is_same(state.local) && result == state.sharding) return input;
  if (!plan.overwrites) return input.clone();
  return at::empty(local_sizes(own.sizes(), result->placements, mesh.sizes(), mesh.coordinate()),
                   state.local.options());
}

/// Local tensors for arguments that are read and written but not returned: the parts themselves if they are not
/// redistributed, else copies.
void copy_written_beside(const OpInfo& info, const std::vector<TensorArgument>& inputs, const Plan& plan,
                         std::vector<at::Tensor>& locals) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!info.writes_beside(inputs[i].position) || !is_global(inputs[i].tensor)) continue;
    check_written(info, inputs[i].tensor);
    const auto& state = state_of(inputs[i].tensor);
    if (locals[i].is_same(state.local) && plan.inputs[i] != state.sharding) locals[i] = locals[i].clone();
  }
}

/// Assigns such copies to the caller's tensors after the call.
void hand_back(const OpInfo& info, const std::vector<TensorArgument>& inputs, const Plan& plan,
               const std::vector<at::Tensor>& locals) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!info.writes_beside(inputs[i].position) || !is_global(inputs[i].tensor)) continue;
    assign(inputs[i].tensor, locals[i], shape_of(inputs[i].tensor), plan.inputs[i]);
    note_written(inputs[i].tensor);
  }
}

const at::Tensor* first_global(const torch::jit::Stack& arguments) {
  for (const auto& value : arguments) {
    if (value.isTensor() && is_global(value.toTensor())) return &value.toTensor();
  }
  return nullptr;
}

void carry_out(const c10::OperatorHandle& op, const Plan& plan, MeshState& mesh, torch::jit::Stack& stack) {
  if (!plan.form) return op.callBoxed(stack);
  LocalCall call{.op = op, .stack = stack, .plan = plan, .mesh = mesh};
  plan.form(call);
}

/// The fast path of a direct plan, without redistribution: replaces the inputs by their parts, calls the operator and
/// wraps the results, all on the caller's stack.
void run_on_parts(const c10::OperatorHandle& op, const OpInfo& info, const Plan& plan, torch::jit::Stack& stack) {
  c10::IValue own = stack[plan.tensor_positions.front()];
  auto& own_state = state_of(own.toTensor());
  if (info.written_self) check_written(info, own.toTensor());
  torch::jit::Stack called_with;
  if (info.is_view) called_with = stack;
  const auto& mesh = own_state.mesh;  // `own` keeps it alive
  for (const std::size_t position : plan.tensor_positions) {
    at::Tensor local = state_of(stack[position].toTensor()).local;
    stack[position] = std::move(local);
  }
  for (const std::size_t position : plan.device_positions) stack[position] = mesh->device();
  carry_out(op, plan, *mesh, stack);
  if (info.written_self) own_state.unwritten = false;
  const bool one_tensor = stack.size() == 1 && stack[0].isTensor() && stack[0].toTensor().defined();
  if (one_tensor && info.returned_argument[0]) {
    note_written(own.toTensor());
    stack[0] = std::move(own);
  } else if (one_tensor && plan.outputs.size() == 1) {
    stack[0] = make_global({.mesh = mesh,
                            .sharding = plan.outputs[0].sharding,
                            .local = std::move(stack[0]).toTensor(),
                            .unwritten = info.makes_unwritten},
                           plan.outputs[0].shape);
  } else {
    torch::jit::Stack arguments(info.arguments);
    if (info.written_self) arguments[*info.written_self] = own;
    stack = global_results(info, plan, mesh, std::move(stack), arguments);
  }
  if (info.is_view) {
    note_views(op, called_with, plan, /*brought=*/false, called_with[plan.tensor_positions.front()].toTensor(), stack);
  }
}

void run_direct(const c10::OperatorHandle& op, const OpInfo& info, const Plan& plan, torch::jit::Stack& stack) {
  const auto mesh = state_of(stack[plan.tensor_positions.front()].toTensor()).mesh;
  work_with(mesh);
  const OperatorScope on_trace(*mesh, plan);
  on_trace.run(*mesh, [&] { run_on_parts(op, info, plan, stack); });
}

/// Redistributes new results as the user's strategy requires. Their logical values stay the same, so backward does,
/// too.
void move_outputs(const Plan& plan, MeshState& mesh, const torch::jit::Stack& results) {
  for (std::size_t i = 0; i < std::min(plan.afterwards.size(), results.size()); ++i) {
    if (!results[i].isTensor() || !is_global(results[i].toTensor())) continue;
    const auto& tensor = results[i].toTensor();
    auto& state = state_of(tensor);
    if (state.sharding == plan.afterwards[i]) continue;
    auto local = redistribute_local(state.local, tensor.sizes(), tensor.suggest_memory_format(), mesh,
                                    state.sharding->placements, plan.afterwards[i]->placements);
    state.sharding = plan.afterwards[i];
    set_part(tensor, std::move(local));
  }
}

/// Redistributes the inputs as the plan requires, and runs the call. Appends the results to the stack.
void bring_and_run(const c10::OperatorHandle& op, const OpInfo& info, const Plan& plan,
                   const std::shared_ptr<MeshState>& mesh, const torch::jit::Stack& arguments,
                   const std::vector<TensorArgument>& inputs, torch::jit::Stack& stack) {
  if (plan.gathers != nullptr) {
    ++plan.gathers->calls;
    plan.gathers->bytes += plan.gathered_bytes;
  }
  auto locals = local_inputs(plan, inputs, *mesh);
  // A partial input may have been reduced in place.
  const bool brought = !inputs.empty() && plan.inputs[0] && plan.inputs[0] != state_of(inputs[0].tensor).sharding;
  torch::jit::Stack work = arguments;
  if (info.written_self && !inputs.empty() && is_global(inputs[0].tensor)) {
    locals[0] = written_part(info, plan, inputs[0].tensor, locals[0], *mesh);
  }
  copy_written_beside(info, inputs, plan, locals);
  replace_inputs(info, work, locals);
  const auto& called = without_out(op, info, work, mesh->device());
  replace_device(work, mesh->device());
  carry_out(called, plan, *mesh, work);

  hand_back(info, inputs, plan, locals);
  const at::Tensor before = info.reshapes_self ? without_graph(arguments[0].toTensor()) : at::Tensor();
  auto results = global_results(info, plan, mesh, std::move(work), arguments);
  if (info.is_view && !inputs.empty()) note_views(op, arguments, plan, brought, inputs[0].tensor, results);
  move_outputs(plan, *mesh, results);
  if (info.reshapes_self) note_reshaped(op, arguments, plan, brought, before, arguments[0].toTensor());
  for (auto& result : results) stack.push_back(std::move(result));
}

void run_planned(const c10::OperatorHandle& op, const OpInfo& info, KeyView key, const OperatorStrategy* strategy,
                 torch::jit::Stack& stack) {
  const torch::jit::Stack arguments = torch::jit::pop(stack, info.arguments);
  if (info.loses_writes) {
    fail(ErrorKind::unsupported, "global view",
         "{} writes its results into \"out\" arguments that it does not return, which cannot be done for global "
         "tensors; "
         "use the variant that returns new tensors, or ordinary tensors, which full() and to_local() give",
         info.shown);
  }
  const auto inputs = input_tensors(info, arguments);
  if (Recorder* recorder = recorder_of(inputs)) return recorder->record(op, info, key, arguments, stack);
  if (info.may_cross && copy_between_worlds(info, arguments, stack)) return;
  const auto mesh = mesh_of_call(op, info, inputs);
  const Plan* plan = mesh->plans().find(key);
  if (!plan) plan = mesh->plans().keep(key, make_plan(op, info, arguments, inputs, *mesh, strategy));
  const OperatorScope on_trace(*mesh, *plan);
  on_trace.run(*mesh, [&] { bring_and_run(op, info, *plan, mesh, arguments, inputs, stack); });
}

/// Calls with different strategies are different calls, too.
void add_strategy(const NamedOperators::NamedCall& call, Key& key) {
  if (call.number > 0) key.push_back(call.number);
}

void run_call(const c10::OperatorHandle& op, const OpInfo& info, const NamedOperators::NamedCall& named,
              torch::jit::Stack* stack) {
  Key key;
  if (stack->size() == info.arguments) {
    if (write_key(info, *stack, key)) {
      bring_up_to_date(*stack);
      write_key(info, *stack, key);
    }
    add_strategy(named, key);
    const auto* tensor = info.may_cross ? nullptr : first_global(*stack);
    if (tensor) {
      const Plan* plan = state_of(*tensor).mesh->plans().find({key.data(), key.size()});
      if (plan && plan->direct) return run_direct(op, info, *plan, *stack);
    }
  } else {
    const auto arguments = torch::jit::last(*stack, info.arguments).vec();
    bring_up_to_date(arguments);
    write_key(info, arguments, key);
    add_strategy(named, key);
  }
  run_planned(op, info, {key.data(), key.size()}, named.strategy.get(), *stack);
}

}  // namespace

void run_global(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const OpInfo& info = op_info(op);
  const auto arguments = torch::jit::last(*stack, info.arguments);
  auto* names = names_of(arguments);
  if (names == nullptr) return run_call(op, info, {}, stack);
  const auto call = names->called(info, arguments.vec());
  run_call(op, info, call, stack);
  NamedOperators::made(call, torch::jit::last(*stack, op.schema().returns().size()));
}

}  // namespace lockstep::global
