// The physical device of each rank of a group. It shows which ranks share a device before an engine that cannot share
// devices is started. The comparison needs no device; reading a device's identity does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

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
