// The choice of a run's device, from the configuration and the devices that exist. Pure; no libtorch.
#pragma once

#include <lockstep/comm/device/choose.h>
#include <lockstep/world/world.h>

#include <string_view>

namespace lockstep::train {

using lockstep::detail::cuda_devices;
using lockstep::detail::CudaDevices;

/// Checks whether system.device ("auto", "cpu", "cuda" or "cuda:N") is possible for a rank of `world`. Error(config)
/// for CUDA without a device, or a number that no device has; and, if ranks may not share a device (`may_share`), for
/// more ranks than devices on this host, or one number for several ranks. Must be called before the rendezvous.
void require_device(std::string_view device, const World& world, const CudaDevices& devices, bool may_share);

/// The same check for a backend for CUDA tensors, which needs CUDA devices. `where`: the source of the backend's name,
/// parallel.backend or LOCKSTEP_BACKEND.
void require_device_for(std::string_view backend, std::string_view where, const World& world,
                        const CudaDevices& devices, bool may_share);

/// Whether a run computes on CUDA: if its group transfers CUDA tensors, or with "auto" for a single rank if there is a
/// device. In the global view, tensors are on the device of the group's tensors. Error(config) for several ranks with
/// parameter servers.
bool use_cuda(std::string_view device, bool group_on_cuda, int ranks, std::string_view mode,
              const CudaDevices& devices);

}  // namespace lockstep::train
