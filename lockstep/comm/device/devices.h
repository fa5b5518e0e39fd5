// The device whose tensors a rank's groups carry: its choice from the options and the devices that exist; and the
// physical device of each rank, which shows which ranks share a device before an engine that cannot share devices is
// started. Only what reads a device needs one. No libtorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// The device of one rank.
struct DeviceIdentity {
  std::string uuid;   ///< different for all devices worldwide, and equal in all containers of one machine
  std::string shown;  ///< readable text: "cuda:0, NVIDIA H100 80GB HBM3, PCI 0000:3b:00.0"

  bool operator==(const DeviceIdentity&) const = default;
};

/// The length of an identity as text. A longer text is cut.
inline constexpr std::size_t kIdentityBytes = 256;
std::string encode(const DeviceIdentity& identity);
/// Error(invalid_argument) for a text that `encode` did not write.
DeviceIdentity decode_identity(std::string_view text);

/// For a `backend` whose ranks each need their own device: the ranks that share a device, and how to correct this.
/// `describe_rank`: as in BackendContext.
std::optional<std::string> shared_devices(const std::vector<DeviceIdentity>& by_rank, std::string_view backend,
                                          const std::function<std::string(int rank)>& describe_rank);

/// The version of CUDA that libtorch was built for, "13.0"; empty: libtorch for the CPU only. Needs no device.
std::string cuda_version();

/// The pairs of this process's first `count` CUDA devices that cannot reach each other's memory, as "cuda:0 and
/// cuda:3". Empty in builds without CUDA.
std::vector<std::string> pairs_without_peer_access(int count);

/// Bytes of CUDA device `index` that are free. 0 in builds without CUDA.
std::int64_t free_device_memory(int index);

/// The identity of CUDA device `index` of this process. Empty in builds without CUDA.
DeviceIdentity cuda_identity(int index);

}  // namespace lockstep::detail
