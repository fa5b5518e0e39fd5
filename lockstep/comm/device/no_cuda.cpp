// Stands in for cuda_identity.cpp where libtorch was built without CUDA.
#include <lockstep/comm/device/devices.h>

namespace lockstep::detail {

DeviceIdentity cuda_identity(int) { return {}; }

std::vector<std::string> pairs_without_peer_access(int) { return {}; }

std::int64_t free_device_memory(int) { return 0; }

}  // namespace lockstep::detail
