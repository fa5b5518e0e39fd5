// The choice of a CUDA device by option, local rank and CUDA_VISIBLE_DEVICES, with the errors where there is none; the
// identities of devices as texts of fixed length, and the search for ranks with the same device UUID.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/comm/device/devices.h>

#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

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

std::string encode(const DeviceIdentity& identity) {
  auto text = identity.uuid + '\n' + identity.shown;
  text.resize(kIdentityBytes, '\0');
  return text;
}

DeviceIdentity decode_identity(std::string_view text) {
  const auto between = text.find('\n');
  if (between == std::string_view::npos) {
    fail(ErrorKind::invalid_argument, "connect", "the identity of a rank's device is not readable");
  }
  const auto shown = text.substr(between + 1);
  return {std::string(text.substr(0, between)), std::string(shown.substr(0, shown.find('\0')))};
}

std::optional<std::string> shared_devices(const std::vector<DeviceIdentity>& by_rank, std::string_view backend,
                                          const std::function<std::string(int rank)>& describe_rank) {
  std::map<std::string, std::vector<std::size_t>> ranks_by_uuid;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) ranks_by_uuid[by_rank[rank].uuid].push_back(rank);
  std::vector<std::string> shared;
  for (const auto& [uuid, ranks] : ranks_by_uuid) {
    if (ranks.size() == 1) continue;
    std::vector<std::string> names;
    for (const auto rank : ranks) names.push_back(describe_rank(static_cast<int>(rank)));
    shared.push_back(fmt::format("{} use {}", fmt::join(names, " and "), by_rank[ranks.front()].shown));
  }
  if (shared.empty()) return std::nullopt;
  return fmt::format(
      "{} needs a device for each rank, but {}. Start as many ranks as the host has devices (lockstep run "
      "--nproc-per-node gpu), and let each take that of its local rank: device \"cuda\", and a CUDA_VISIBLE_DEVICES "
      "that is alike for the ranks of a host, or another for each. For several ranks on one device use backend "
      "staged, which is slower",
      backend, fmt::join(shared, "; "));
}

std::string cuda_version() {
  const auto& cuda = at::detail::getCUDAHooks();
  if (!cuda.hasCUDART()) return "";
  const auto version = cuda.versionCUDART();
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace lockstep::detail
