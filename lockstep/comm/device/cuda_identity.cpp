// CUDA devices: identity, free memory, and access between devices. Compiled only with CUDA.
#include <lockstep/comm/device/devices.h>

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

namespace lockstep::detail {

DeviceIdentity cuda_identity(int index) {
  const auto& device = *at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(index));
  std::string uuid;
  for (const char byte : device.uuid.bytes) uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return {uuid, fmt::format("cuda:{}, {}, PCI {:04x}:{:02x}:{:02x}.0", index, device.name, device.pciDomainID,
                            device.pciBusID, device.pciDeviceID)};
}

std::int64_t free_device_memory(int index) {
  const c10::cuda::CUDAGuard on_device(static_cast<c10::DeviceIndex>(index));
  std::size_t free = 0, all = 0;
  return cudaMemGetInfo(&free, &all) == cudaSuccess ? static_cast<std::int64_t>(free) : 0;
}

std::vector<std::string> pairs_without_peer_access(int count) {
  std::vector<std::string> pairs;
  for (int a = 0; a < count; ++a) {
    for (int b = a + 1; b < count; ++b) {
      int there = 0, back = 0;
      const bool known =
          cudaDeviceCanAccessPeer(&there, a, b) == cudaSuccess && cudaDeviceCanAccessPeer(&back, b, a) == cudaSuccess;
      if (known && (there == 0 || back == 0)) pairs.push_back(fmt::format("cuda:{} and cuda:{}", a, b));
    }
  }
  return pairs;
}

}  // namespace lockstep::detail
