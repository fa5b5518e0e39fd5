// The choice of a run's device, from the configuration and the devices that exist. Pure; no libtorch.
#pragma once

#include <lockstep/comm/device/choose.h>
#include <lockstep/world/world.h>

#include <string_view>

namespace lockstep::train {

using lockstep::detail::cuda_devices;
using lockstep::detail::CudaDevices;

/// Whether system.device ("auto", "cpu", "cuda" or "cuda:N") can mean what it says for a rank of `world`. Error(config)
/// for CUDA without a device, or a number that no device has; and where ranks may not share one (`may_share`), with
/// more ranks on this host than devices, or one number for several. To be called before ranks meet.
void require_device(std::string_view device, const World& world, const CudaDevices& devices, bool may_share);

/// The same for a backend for CUDA tensors, which asks for them by itself. `where`: what named it, parallel.backend or
/// LOCKSTEP_BACKEND.
void require_device_for(std::string_view backend, std::string_view where, const World& world,
                        const CudaDevices& devices, bool may_share);

/// Whether a run computes on CUDA: where its group carries tensors of it, and with "auto" for a single rank where there
/// is a device, but for the global view, whose tensors lie where those of its group do. Error(config) for several ranks
/// with parameter servers.
bool use_cuda(std::string_view device, bool group_on_cuda, int ranks, std::string_view mode,
              const CudaDevices& devices);

}  // namespace lockstep::train
