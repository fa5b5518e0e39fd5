// The differences between the libtorch versions that Lockstep builds with (1.13 and newer), all in this header.
#pragma once

#include <lockstep/compat/global_device.h>

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <torch/version.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <fmt/format.h>

#include <optional>
#include <string>
#include <type_traits>

#define LOCKSTEP_LIBTORCH_SINCE(MAJOR, MINOR) \
  (TORCH_VERSION_MAJOR > (MAJOR) || (TORCH_VERSION_MAJOR == (MAJOR) && TORCH_VERSION_MINOR >= (MINOR)))

namespace lockstep::compat {

/// Whether c10d's TCP store, once connected, waits for its peer's first answer without a deadline.
inline constexpr bool kStoreWaitsWithoutDeadline = LOCKSTEP_LIBTORCH_SINCE(2, 4);

/// Makes c10d's TCP store use plain sockets: libuv, the newer default, is not compiled into every libtorch.
inline void without_libuv([[maybe_unused]] c10d::TCPStoreOptions& options) {
#if LOCKSTEP_LIBTORCH_SINCE(2, 4)
  options.useLibUV = false;
#endif
}

/// Whether matrix products and convolutions of float16 run on the CPU.
inline constexpr bool kHalfOnCpu = LOCKSTEP_LIBTORCH_SINCE(2, 3);

/// Switches this thread's autocast to `dtype`, on the CPU or CUDA, or off.
inline void set_autocast(at::ScalarType dtype, bool on_cuda, bool on) {
#if LOCKSTEP_LIBTORCH_SINCE(2, 4)
  const auto device = on_cuda ? at::kCUDA : at::kCPU;
  if (on) at::autocast::set_autocast_dtype(device, dtype);
  at::autocast::set_autocast_enabled(device, on);
#else
  if (on_cuda) {
    if (on) at::autocast::set_autocast_gpu_dtype(dtype);
    at::autocast::set_enabled(on);
  } else {
    if (on) at::autocast::set_autocast_cpu_dtype(dtype);
    at::autocast::set_cpu_enabled(on);
  }
#endif
}

// The autocast key of global tensors. Before 2.1 their device has none, and the key of another device that such a
// libtorch lacks is used instead.
#if LOCKSTEP_LIBTORCH_SINCE(2, 1)
inline constexpr auto kGlobalAutocastKey = c10::DispatchKey::AutocastIPU;
#else
inline constexpr auto kGlobalAutocastKey = c10::DispatchKey::AutocastXPU;
#endif

/// Enables that key on this thread with a dtype, or disables it.
inline void set_global_autocast(std::optional<at::ScalarType> dtype) {
#if LOCKSTEP_LIBTORCH_SINCE(2, 4)
  if (dtype) at::autocast::set_autocast_dtype(kGlobalDevice, *dtype);
  at::autocast::set_autocast_enabled(kGlobalDevice, dtype.has_value());
#elif LOCKSTEP_LIBTORCH_SINCE(2, 1)
  if (dtype) at::autocast::set_autocast_ipu_dtype(*dtype);
  at::autocast::set_ipu_enabled(dtype.has_value());
#else
  if (dtype) at::autocast::set_autocast_xpu_dtype(*dtype);
  at::autocast::set_xpu_enabled(dtype.has_value());
#endif
}

/// The dtype with which it was enabled.
inline at::ScalarType global_autocast_dtype() {
#if LOCKSTEP_LIBTORCH_SINCE(2, 4)
  return at::autocast::get_autocast_dtype(kGlobalDevice);
#elif LOCKSTEP_LIBTORCH_SINCE(2, 1)
  return at::autocast::get_autocast_ipu_dtype();
#else
  return at::autocast::get_autocast_xpu_dtype();
#endif
}

/// The dtypes of autocast on this thread; at::ThreadLocalState holds whether it is on.
struct AutocastDtypes {
  at::ScalarType cpu, cuda, global;
};

inline AutocastDtypes autocast_dtypes() {
#if LOCKSTEP_LIBTORCH_SINCE(2, 4)
  return {at::autocast::get_autocast_dtype(at::kCPU), at::autocast::get_autocast_dtype(at::kCUDA),
          global_autocast_dtype()};
#else
  return {at::autocast::get_autocast_cpu_dtype(), at::autocast::get_autocast_gpu_dtype(), global_autocast_dtype()};
#endif
}

inline void set_autocast_dtypes(const AutocastDtypes& dtypes) {
#if LOCKSTEP_LIBTORCH_SINCE(2, 4)
  at::autocast::set_autocast_dtype(at::kCPU, dtypes.cpu);
  at::autocast::set_autocast_dtype(at::kCUDA, dtypes.cuda);
  at::autocast::set_autocast_dtype(kGlobalDevice, dtypes.global);
#else
  at::autocast::set_autocast_cpu_dtype(dtypes.cpu);
  at::autocast::set_autocast_gpu_dtype(dtypes.cuda);
#if LOCKSTEP_LIBTORCH_SINCE(2, 1)
  at::autocast::set_autocast_ipu_dtype(dtypes.global);
#else
  at::autocast::set_autocast_xpu_dtype(dtypes.global);
#endif
#endif
}

/// A scope that sets those dtypes.
class AutocastDtypesGuard {
 public:
  explicit AutocastDtypesGuard(const AutocastDtypes& dtypes) : before_(autocast_dtypes()) {
    set_autocast_dtypes(dtypes);
  }
  ~AutocastDtypesGuard() { set_autocast_dtypes(before_); }
  AutocastDtypesGuard(const AutocastDtypesGuard&) = delete;
  AutocastDtypesGuard& operator=(const AutocastDtypesGuard&) = delete;

 private:
  AutocastDtypes before_;
};

/// The key of a parameter in an optimizer's state(): its address, as text before 2.1, as a pointer since. `Map`: the
/// type of that state.
template <typename Map>
typename Map::key_type optimizer_state_key(const at::Tensor& parameter) {
  if constexpr (std::is_same_v<typename Map::key_type, std::string>) {
    return fmt::format("{}", fmt::ptr(parameter.unsafeGetTensorImpl()));
  } else {
    return parameter.unsafeGetTensorImpl();
  }
}

}  // namespace lockstep::compat

#undef LOCKSTEP_LIBTORCH_SINCE
