#include <lockstep/global/dispatch/backward_order.h>
#include <lockstep/global/dispatch/batched_products.h>
#include <lockstep/global/dispatch/foreach.h>
#include <lockstep/global/dispatch/kernel.h>
#include <lockstep/global/dispatch/recurrent_cells.h>
#include <lockstep/global/dispatch/registration.h>
#include <lockstep/global/rules/signature.h>
#include <lockstep/global/tensor_state.h>

#include <torch/library.h>

#include <string>

namespace lockstep::global {
namespace {

void boxed_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  run_global(op, stack);
}

void foreach_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  run_foreach(op, stack);
}

/// Whether an operator must be registered individually. Operators with a kernel for every device never reach a
/// fallback, so those that Lockstep handles itself are registered one by one. The others are composed of operators that
/// reach the fallback.
bool needs_registration(const c10::OperatorHandle& op, const std::string& base) {
  using c10::DispatchKey;
  const bool for_every_device = op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
                                op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
  return for_every_device && !op.hasKernelForDispatchKey(kDispatchKey) &&
         (find_rule(base) || base == "empty" || base == "empty_strided" || base == "_local_scalar_dense");
}

std::string base_of(const c10::OperatorName& name) {
  std::string base = name.name.substr(name.name.rfind(':') + 1);
  if (base.ends_with('_') && !base.ends_with("__")) base.pop_back();
  return base;
}

/// Never destroyed: libtorch may call the kernels until the process ends.
struct Registrations {
  torch::Library fallback{torch::Library::IMPL, "_", kDispatchKey, __FILE__, __LINE__};
  torch::Library aten{torch::Library::IMPL, "aten", kDispatchKey, __FILE__, __LINE__};
  torch::Library derivatives{torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__};

  Registrations() {
    fallback.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_kernel>());
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const auto& name : dispatcher.getAllOpNames()) {
      const auto op = dispatcher.findSchema(name);
      if (!op || !name.name.starts_with("aten::")) continue;
      const std::string full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
      if (name.name.starts_with("aten::_foreach_") && name.overload_name.find("out") == std::string::npos) {
        aten.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&foreach_kernel>());
        continue;
      }
      if (!needs_registration(*op, base_of(name))) continue;
      aten.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&boxed_kernel>());
    }
    for (const char* whole : {"matmul", "tensordot"}) {
      aten.impl(whole, torch::CppFunction::makeFromBoxedFunction<&boxed_kernel>());
    }
    register_derivatives_of_products(derivatives);
    register_recurrent_cells(aten);
    register_recurrent_cells(derivatives);
    order_backward();
  }
};

}  // namespace

void register_kernels() { static const Registrations registrations; }

}  // namespace lockstep::global
