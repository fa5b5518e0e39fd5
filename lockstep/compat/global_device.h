// The device type of global tensors in libtorch, and its dispatch keys.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/DispatchKey.h>

namespace lockstep::compat {

/// Not PrivateUse1, which libtorch has for devices from outside. Since 2.8 its autograd takes that for the accelerator
/// of the process, of which there is one: beside CUDA either gradients of global tensors or those of CUDA tensors stop
/// with an internal error (pytorch/pytorch#161129), and without a driver asking CUDA for its stream does. IPU is no
/// accelerator to it, but has keys for autograd and autocast; nothing in libtorch runs there.
inline constexpr auto kGlobalDevice = c10::DeviceType::IPU;
inline constexpr auto kGlobalKey = c10::DispatchKey::IPU;
inline constexpr auto kGlobalAutogradKey = c10::DispatchKey::AutogradIPU;

}  // namespace lockstep::compat
