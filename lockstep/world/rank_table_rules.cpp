// The rules for the devices that may form a group.
#include <lockstep/world/rank_table.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace lockstep {
namespace {

constexpr std::size_t kAll = 8;

template <typename... Args>
[[noreturn]] void fail_at(const FilePosition& position, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::config, "rank_table", fmt::format(format, std::forward<Args>(args)...), position);
}

std::vector<int> ids_of(const std::vector<RankTableDevice>& devices) {
  std::vector<int> ids;
  std::transform(devices.begin(), devices.end(), std::back_inserter(ids), [](const auto& one) { return one.device; });
  std::sort(ids.begin(), ids.end());
  return ids;
}

bool in_upper_network(const RankTableDevice& device) { return device.device >= 4; }

void check_only_server(const std::string& server, const std::vector<RankTableDevice>& devices) {
  const auto count = devices.size();
  if (count != 1 && count != 2 && count != 4 && count != kAll) {
    fail_at(devices.front().position,
            "server \"{}\" lists {} devices ({}); one host trains with 1, 2, 4 or 8; list so many, e.g. with 'lockstep "
            "rank-table --device_num \"[0,{})\"'",
            server, count, fmt::join(ids_of(devices), ", "), count < 4 ? 2 : 4);
  }
  if (count != 2 && count != 4) return;
  const auto stranger = std::find_if(devices.begin(), devices.end(), [&](const RankTableDevice& one) {
    return in_upper_network(one) != in_upper_network(devices.front());
  });
  if (stranger == devices.end()) return;
  fail_at(stranger->position,
          "device_id \"{}\" in {} is in another network than \"{}\": devices 0-3 are one and 4-7 the other, and {} "
          "devices must lie in one of them; choose e.g. {}",
          stranger->device, stranger->path, devices.front().device, count,
          count == 4 ? "0, 1, 2, 3 or 4, 5, 6, 7" : "0, 1 or 4, 5");
}

}  // namespace

void check_device_groups(const RankTable& table) {
  const auto servers = table.servers();
  if (servers.size() == 1) {
    check_only_server(servers.front(), table.devices);
    return;
  }
  for (const auto& server : servers) {
    const auto devices = table.of_server(server);
    if (devices.size() == kAll) continue;
    fail_at(devices.front().position,
            "server \"{}\" lists {} of its devices ({}); over several hosts each takes part with all 8; make its table "
            "with 'lockstep rank-table --device_num \"[0,8)\"', or train on one host",
            server, devices.size(), fmt::join(ids_of(devices), ", "));
  }
}

}  // namespace lockstep
