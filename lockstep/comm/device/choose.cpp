// The choice of a CUDA device by option, local rank and CUDA_VISIBLE_DEVICES, with the errors where there is none.
#include <lockstep/comm/device/choose.h>

#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>

#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/format.h>

#include <cstdint>

namespace lockstep::detail {
namespace {

constexpr std::string_view kWhere = "connect";

std::string by_variable(const CudaDevices& devices) {
  return devices.visible_only ? fmt::format(" (CUDA_VISIBLE_DEVICES={})", *devices.visible_only) : "";
}

}  // namespace

std::optional<int> number_of_cuda_device(std::string_view text) {
  constexpr std::string_view kPrefix = "cuda:";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  constexpr std::int64_t kMost = 127;  // c10::DeviceIndex
  const auto number = parse_integer(text.substr(kPrefix.size()));
  return number && *number >= 0 && *number <= kMost ? std::optional<int>(static_cast<int>(*number)) : std::nullopt;
}

CudaDevices cuda_devices() {
  const auto& cuda = at::detail::getCUDAHooks();
  return {static_cast<int>(cuda.getNumGPUs()), find(current_environment(), "CUDA_VISIBLE_DEVICES"), cuda.hasCUDART()};
}

std::string describe(const CudaDevices& devices) {
  if (!devices.built) return "no CUDA device: it is a libtorch for CPUs (docs/libtorch.md)";
  if (devices.count == 0) return "no CUDA device" + by_variable(devices);
  return fmt::format("{} CUDA device{}{}", devices.count, devices.count == 1 ? "" : "s", by_variable(devices));
}

bool wants_cuda(std::string_view wanted, bool for_cuda) {
  if (wanted == "cuda" || number_of_cuda_device(wanted)) return true;
  if (wanted == "auto") return for_cuda;
  if (wanted != "cpu") {
    fail(ErrorKind::invalid_argument, kWhere, "a group's device is auto, cpu, cuda or cuda:N; \"{}\" is none of them",
         wanted);
  }
  if (!for_cuda) return false;
  fail(ErrorKind::invalid_argument, kWhere,
       "the device is the CPU, and the backend carries only CUDA tensors; use backend auto, or device cuda");
}

int choose_cuda_device(std::string_view wanted, int local_rank, const CudaDevices& devices, bool may_share) {
  if (devices.count == 0) {
    fail(ErrorKind::unsupported, kWhere,
         "the group is for CUDA tensors, but this libtorch finds {}; use backend auto and device cpu",
         describe(devices));
  }
  if (const auto number = number_of_cuda_device(wanted)) {
    if (*number < devices.count) return *number;
    fail(ErrorKind::invalid_argument, kWhere, "device {} was requested, and this process has {}, numbered from 0",
         wanted, describe(devices));
  }
  if (local_rank < devices.count) return local_rank;
  if (may_share) return local_rank % devices.count;
  // A launcher may give each rank a different view of the devices. The rendezvous detects ranks that share a device.
  if (devices.count == 1 && devices.visible_only) return 0;
  fail(ErrorKind::unsupported, kWhere,
       "this is local rank {} (from 0) of its host, which has {}, and each rank needs one of its own; start at most {} "
       "rank{} on this host (lockstep run --nproc-per-node gpu), or let ranks share one with backend staged",
       local_rank, describe(devices), devices.count, devices.count == 1 ? "" : "s");
}

}  // namespace lockstep::detail
