#include <lockstep/global/dispatch/copies.h>
#include <lockstep/global/dispatch/fetched_view.h>
#include <lockstep/global/dispatch/operator_scope.h>
#include <lockstep/global/dispatch/results.h>
#include <lockstep/global/dispatch/shapes.h>
#include <lockstep/global/redistribute.h>

#include <ATen/ATen.h>

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
      const auto whole = source.expand(self.sizes()).to(self.scalar_type());
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

}  // namespace

bool copy_between_worlds(const OpInfo& info, const torch::jit::Stack& arguments, torch::jit::Stack& results) {
  if (info.name == "copy" && info.written_self) return copy_in_place(info, arguments, results);
  if (info.name == "_to_copy") return leave(arguments, results);
  return false;
}

}  // namespace lockstep::global
