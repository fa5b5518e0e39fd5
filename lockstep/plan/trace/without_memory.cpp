// A fallback for an unused dispatch key that sends the factories of large tensors to a planning mesh without memory.
#include <lockstep/global/global_tensor.h>
#include <lockstep/plan/trace/step_recorder.h>
#include <lockstep/plan/trace/trace_step.h>

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>

namespace lockstep::plan {
namespace {

/// The only dispatch key of libtorch that has priority over all others, can be enabled for a thread, and is not used.
constexpr auto kModeKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr std::int64_t kSmallBytes = 64 << 10;

/// The index of the device among the arguments of a factory that makes a large tensor; -1 for all other calls.
std::ptrdiff_t device_of_large(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  const auto& schema = op.schema().arguments();
  std::ptrdiff_t device = -1;
  std::int64_t elements = -1;
  for (std::size_t i = 0; i < schema.size(); ++i) {
    if (arguments[i].isTensor() || arguments[i].isTensorList()) return -1;
    if (schema[i].name() == "device") device = static_cast<std::ptrdiff_t>(i);
    if (schema[i].name() == "size" && arguments[i].isIntList()) {
      elements = 1;
      for (const std::int64_t size : arguments[i].toIntVector()) elements *= size;
    }
  }
  return elements * static_cast<std::int64_t>(sizeof(float)) >= kSmallBytes ? device : -1;
}

void redirect_factories(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(kModeKey);
  const auto count = op.schema().arguments().size();
  const auto device = device_of_large(op, torch::jit::last(*stack, count));
  if (device >= 0)
    (*stack)[stack->size() - count + static_cast<std::size_t>(device)] = c10::Device(global::kDeviceType, 0);
  op.callBoxed(stack);
}

/// Never unregistered, like the kernels of global tensors.
void register_redirection() {
  static torch::Library fallback(torch::Library::IMPL, "_", kModeKey, __FILE__, __LINE__);
  static const bool done = [] {
    fallback.fallback(torch::CppFunction::makeFromBoxedFunction<&redirect_factories>());
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace

struct WithoutMemory::State {
  PlanningMesh mesh = make_planning_mesh();
  MeshScope factories_here{Mesh(mesh.state)};
  c10::impl::IncludeDispatchKeyGuard redirected{kModeKey};
};

WithoutMemory::WithoutMemory() {
  register_redirection();
  state_ = std::make_unique<State>();
}

WithoutMemory::~WithoutMemory() = default;

}  // namespace lockstep::plan
