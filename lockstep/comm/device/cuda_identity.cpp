// The identity of a CUDA device. Compiled only with CUDA.
#include <lockstep/comm/device/identity.h>

#include <ATen/cuda/CUDAContext.h>
#include <fmt/format.h>

namespace lockstep::detail {

DeviceIdentity cuda_identity(int index) {
  const auto& device = *at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(index));
  std::string uuid;
  for (const char byte : device.uuid.bytes) uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return {uuid, fmt::format("cuda:{}, {}, PCI {:04x}:{:02x}:{:02x}.0", index, device.name, device.pciDomainID,
                            device.pciBusID, device.pciDeviceID)};
}

}  // namespace lockstep::detail
