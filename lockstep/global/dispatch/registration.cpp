// The registration with libtorch: the operators that autocast runs in 16 bits or in float32 for global tensors, the
// device of global tensors, the order of a backward's operators, and the kernels.
#include <lockstep/compat/libtorch.h>
#include <lockstep/global/dispatch/kernels.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/rules/signature.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace lockstep::global {
namespace {

// Fast in 16 bits.
constexpr std::array<const char*, 16> kIn16Bits{"conv1d",
                                                "conv2d",
                                                "conv3d",
                                                "conv_transpose1d",
                                                "conv_transpose2d.input",
                                                "conv_transpose3d.input",
                                                "_convolution",
                                                "linear",
                                                "matmul",
                                                "mm",
                                                "addmm",
                                                "bmm",
                                                "baddbmm",
                                                "addbmm",
                                                "conv1d.padding",
                                                "conv2d.padding"};

// Sums over many elements, or with results outside of what 16 bits can hold.
constexpr std::array<const char*, 28> kInFloat{"binary_cross_entropy",
                                               "binary_cross_entropy_with_logits",
                                               "mse_loss",
                                               "l1_loss",
                                               "smooth_l1_loss",
                                               "huber_loss",
                                               "kl_div",
                                               "nll_loss",
                                               "nll_loss2d",
                                               "cosine_embedding_loss",
                                               "hinge_embedding_loss",
                                               "margin_ranking_loss",
                                               "triplet_margin_loss",
                                               "soft_margin_loss",
                                               "multilabel_margin_loss",
                                               "multi_margin_loss",
                                               "poisson_nll_loss",
                                               "gaussian_nll_loss",
                                               "ctc_loss.IntList",
                                               "ctc_loss.Tensor",
                                               "prod",
                                               "prod.dim_int",
                                               "logsumexp",
                                               "dist",
                                               "cdist",
                                               "cosine_similarity",
                                               "grid_sampler",
                                               "quantile"};

bool is_cast(const at::Tensor& tensor, at::ScalarType to) {
  return tensor.defined() && is_global(tensor) && tensor.is_floating_point() && tensor.scalar_type() != at::kDouble &&
         tensor.scalar_type() != to;
}

void cast_and_call(const c10::OperatorHandle& op, torch::jit::Stack* stack, at::ScalarType to) {
  const c10::impl::ExcludeDispatchKeyGuard no_casts{c10::DispatchKeySet(compat::kGlobalAutocastKey)};
  const auto arguments = op.schema().arguments().size();
  for (auto value = stack->end() - static_cast<std::ptrdiff_t>(arguments); value != stack->end(); ++value) {
    if (value->isTensor() && is_cast(value->toTensor(), to)) *value = value->toTensor().to(to);
  }
  op.callBoxed(*stack);
}

void to_16_bits(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  cast_and_call(op, stack, compat::global_autocast_dtype());
}

void to_float(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  cast_and_call(op, stack, at::kFloat);
}

/// Not all libtorch versions have all of these operators.
bool exists(const char* name) {
  const std::string full = name;
  const auto dot = full.find('.');
  return c10::Dispatcher::singleton()
      .findSchema({"aten::" + full.substr(0, dot), dot == std::string::npos ? "" : full.substr(dot + 1)})
      .has_value();
}

/// Registers the casts for the autocast key of global tensors. Other operators pass that key by.
void register_autocast(torch::Library& fallback, torch::Library& aten) {
  fallback.fallback(torch::CppFunction::makeFallthrough());
  for (const auto* name : kIn16Bits) {
    if (exists(name)) aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&to_16_bits>());
  }
  for (const auto* name : kInFloat) {
    if (exists(name)) aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&to_float>());
  }
}

}  // namespace

void set_autocast(std::optional<c10::ScalarType> dtype) { compat::set_global_autocast(dtype); }

namespace {

std::atomic<bool> has_device{true};

/// The device guard for the device of global tensors, which libtorch requires. There is a single device, so it does
/// nothing.
class DeviceGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kDeviceType; }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  c10::Device getDevice() const override { return c10::Device(kDeviceType, 0); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }  // used by autograd of libtorch 2
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  c10::DeviceIndex deviceCount() const noexcept override { return has_device ? 1 : 0; }

 private:
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, c10::Device(kDeviceType, 0)); }
};

// Registered when the library is loaded, because autograd counts devices at the first backward of the process.
const c10::impl::DeviceGuardImplRegistrar registered(kDeviceType, [] {
  static const DeviceGuard guard;
  return &guard;
}());

using torch::autograd::Engine;
using torch::autograd::GraphRoot;
using torch::autograd::GraphTask;
using torch::autograd::InputBuffer;
using torch::autograd::Node;
using torch::autograd::ReadyQueue;

/// Replaces `slot` by `queue` while it exists.
class Borrowed {
 public:
  Borrowed(std::shared_ptr<ReadyQueue>& slot, std::shared_ptr<ReadyQueue> queue) : slot_(slot), own_(std::move(slot)) {
    slot_ = std::move(queue);
  }
  ~Borrowed() { slot_ = std::move(own_); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

 private:
  std::shared_ptr<ReadyQueue>& slot_;
  std::shared_ptr<ReadyQueue> own_;
};

bool begins_with_global(const Node& root, InputBuffer& inputs) {
  if (const auto* several = dynamic_cast<const GraphRoot*>(&root)) {
    return std::any_of(several->outputs.begin(), several->outputs.end(), is_global);
  }
  for (std::uint32_t i = 0; i < root.num_inputs(); ++i) {
    if (is_global(inputs[i])) return true;
  }
  return false;
}

/// Whether a backward contains global tensors: it may begin with an ordinary tensor (full(loss), to_local(y)).
bool leads_to_global(const GraphTask& task) {
  return std::any_of(task.nodes_in_graph_.begin(), task.nodes_in_graph_.end(), [](const Node* node) {
    for (std::uint32_t i = 0; i < node->num_inputs(); ++i) {
      if (node->input_metadata(i).device().type() == kDeviceType) return true;
    }
    return false;
  });
}

class OrderedEngine : public Engine {
 public:
  ~OrderedEngine() override { stop(); }

  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(const std::shared_ptr<GraphTask>& task,
                                                                 std::shared_ptr<Node> root,
                                                                 InputBuffer&& inputs) override {
    const bool any_mesh = c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kDispatchKey);
    if (!any_mesh || (!begins_with_global(*root, inputs) && !leads_to_global(*task))) {
      return Engine::execute_with_graph_task(task, std::move(root), std::move(inputs));
    }
    initialize_device_threads_pool();
    // Tasks for the device's thread go to the queue of the calling thread.
    const Borrowed queue(device_ready_queues_.at(0), task->cpu_ready_queue_);
    return Engine::execute_with_graph_task(task, std::move(root), std::move(inputs));
  }
};

Engine& ordered_engine() {
  static OrderedEngine engine;
  return engine;
}

/// A backward with global tensors runs on the thread that calls it. libtorch has one thread for each device
/// other than the CPU, and moves work between threads: with several results, or with undefined gradients, ranks would
/// execute their collectives in different orders. Moving work between threads would also cost more than an operator.
/// One thread at a time may run such a backward. No effect if the program has its own autograd engine.
/// Done when the library is loaded: in newer libtorch versions only the engine of a process's first backward gets
/// queues for devices, and that backward may happen before the first mesh.
[[maybe_unused]] const bool ordered = [] {
  const bool first = &Engine::get_default_engine() == &Engine::get_base_engine();
  if (first) torch::autograd::set_default_engine_stub(ordered_engine);
  return first;
}();

void boxed_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  run_global(op, stack);
}

void foreach_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  run_foreach(op, stack);
}

/// Whether an operator must be registered individually. Operators with a kernel for every device never reach a
/// fallback, so those that Lockstep handles itself are registered one by one. All other operators are composed of
/// operators that reach the fallback.
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
  torch::Library derivatives{torch::Library::IMPL, "aten", compat::kGlobalAutogradKey, __FILE__, __LINE__};
  torch::Library autocast_fallback{torch::Library::IMPL, "_", compat::kGlobalAutocastKey, __FILE__, __LINE__};
  torch::Library autocast{torch::Library::IMPL, "aten", compat::kGlobalAutocastKey, __FILE__, __LINE__};

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
    register_kinds(derivatives);
    register_scatters_into_views(aten);
    register_autocast(autocast_fallback, autocast);
  }
};

}  // namespace

void register_kernels() { static const Registrations registrations; }

}  // namespace lockstep::global

void lockstep::leave_out_global_device() { global::has_device = false; }
