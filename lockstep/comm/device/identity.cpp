// The identities of devices as texts of fixed length, and the search for ranks with the same device UUID.
#include <lockstep/comm/device/identity.h>

#include <lockstep/base/error.h>

#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep::detail {

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
