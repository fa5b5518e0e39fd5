// The choice of a run's device, from the configuration and the devices that exist. Pure; no libtorch.
#pragma once

#include <lockstep/world/world.h>

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::train {

/// The CUDA devices that this process may use.
struct CudaDevices {
  int count = 0;                                           ///< 0 also where libtorch was built without CUDA
  std::optional<std::string> visible_only = std::nullopt;  ///< CUDA_VISIBLE_DEVICES, if set
};

/// Whether system.device ("auto", "cpu" or "cuda") means CUDA for a rank of `world`; auto does for a single rank where
/// there is a device. Error(unsupported) for "cuda" without a device, with more ranks on this host than devices, and
/// with several ranks (no backend of this version carries CUDA tensors).
bool use_cuda(std::string_view device, const World& world, const CudaDevices& devices);

}  // namespace lockstep::train
