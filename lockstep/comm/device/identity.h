// Which physical device each rank of a group uses, so that ranks that share one are found before an engine is asked
// that cannot have that. The comparison needs no device; reading a device's identity does.
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
  std::string uuid;   ///< different for all devices of the world, also between containers of one machine
  std::string shown;  ///< for people: "cuda:0, NVIDIA H100 80GB HBM3, PCI 0000:3b:00.0"

  bool operator==(const DeviceIdentity&) const = default;
};

/// An identity as text of one length, cut where it is longer.
inline constexpr std::size_t kIdentityBytes = 256;
std::string encode(const DeviceIdentity& identity);
/// Error(invalid_argument) for what `encode` did not write.
DeviceIdentity decode_identity(std::string_view text);

/// Where each rank of `backend` needs a device of its own: who shares which, and what to do. `describe_rank`: as
/// BackendContext's.
std::optional<std::string> shared_devices(const std::vector<DeviceIdentity>& by_rank, std::string_view backend,
                                          const std::function<std::string(int rank)>& describe_rank);

/// The version of CUDA that libtorch was built for, "13.0"; empty: for CPUs alone. Needs no device.
std::string cuda_version();

/// The pairs of this process's first `count` CUDA devices that cannot reach each other's memory, as "cuda:0 and
/// cuda:3". Empty in builds without CUDA.
std::vector<std::string> pairs_without_peer_access(int count);

/// Bytes of CUDA device `index` that are free. 0 in builds without CUDA.
std::int64_t free_device_memory(int index);

/// That of CUDA device `index` of this process. Empty in builds without CUDA.
DeviceIdentity cuda_identity(int index);

}  // namespace lockstep::detail
