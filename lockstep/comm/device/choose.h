// The choice of the device whose tensors a rank's groups carry, from the options and the devices that exist. Pure; no
// libtorch.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::detail {

/// The CUDA devices that this process may use.
struct CudaDevices {
  int count = 0;                                           ///< 0 also where libtorch was built without CUDA
  std::optional<std::string> visible_only = std::nullopt;  ///< CUDA_VISIBLE_DEVICES, if set
  bool built = true;                                       ///< libtorch was built with CUDA
};

/// The CUDA devices that libtorch finds.
CudaDevices cuda_devices();

/// "no CUDA device (CUDA_VISIBLE_DEVICES=)", "2 CUDA devices"; where there is none, with the reason.
std::string describe(const CudaDevices& devices);

/// N of "cuda:N"; nullopt for anything else.
std::optional<int> number_of_cuda_device(std::string_view text);

/// Whether GroupOptions::device (`wanted`) means a CUDA device. `for_cuda`: the requested backend carries CUDA tensors
/// alone, so that "auto" means "cuda". Error(invalid_argument) for any other text, or "cpu" with such a backend. It is
/// separate from choose_cuda_device because a process that has queried its devices can no longer fork.
bool wants_cuda(std::string_view wanted, bool for_cuda);

/// The index of that device on the rank with this local rank. `may_share`: when there are more ranks than devices, the
/// devices are assigned in turn. Error(invalid_argument) for a number that no device has; Error(unsupported) where
/// there is no device, or without `may_share` fewer devices than local ranks.
int choose_cuda_device(std::string_view wanted, int local_rank, const CudaDevices& devices, bool may_share = false);

}  // namespace lockstep::detail
