// The differences between the libtorch versions that Lockstep builds with (1.13 and newer), all in this header.
#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <torch/version.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <fmt/format.h>

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

/// Switches this thread's autocast to bfloat16, on the CPU or CUDA.
inline void set_bfloat16_autocast(bool on_cuda, bool on) {
#if LOCKSTEP_LIBTORCH_SINCE(2, 4)
  const auto device = on_cuda ? at::kCUDA : at::kCPU;
  if (on) at::autocast::set_autocast_dtype(device, at::kBFloat16);
  at::autocast::set_autocast_enabled(device, on);
#else
  if (on_cuda) {
    if (on) at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
    at::autocast::set_enabled(on);
  } else {
    if (on) at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
    at::autocast::set_cpu_enabled(on);
  }
#endif
}

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
