// The device type of global tensors in libtorch, and its dispatch keys.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/DispatchKey.h>

namespace lockstep::compat {

/// Not PrivateUse1, libtorch's device type for external backends. Since 2.8 libtorch's autograd treats that as the
/// accelerator of the process, which can have only one: beside CUDA, gradients of either global tensors or CUDA tensors
/// fail with an internal error (pytorch/pytorch#161129), and without a driver the query for CUDA's stream does.
/// Autograd does not treat IPU as an accelerator, but IPU has keys for autograd and autocast; nothing in libtorch runs
/// there.
inline constexpr auto kGlobalDevice = c10::DeviceType::IPU;
inline constexpr auto kGlobalKey = c10::DispatchKey::IPU;
inline constexpr auto kGlobalAutogradKey = c10::DispatchKey::AutogradIPU;

}  // namespace lockstep::compat
