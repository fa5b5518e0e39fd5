// A writer of Ascend rank tables (HCCL's JSON, version 1.0) for one server, and the merge of several.
#include <lockstep/base/text.h>
#include <lockstep/world/rank_table.h>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDevices = 8;

template <typename... Args>
[[noreturn]] void refuse_request(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::invalid_argument, "rank_table", format, std::forward<Args>(args)...);
}

std::vector<int> parse_range(std::string_view text) {
  const auto comma = text.find(',');
  const bool framed = text.size() >= 2 && text.front() == '[' && text.back() == ')' && comma != std::string_view::npos;
  const auto first = framed ? parse_integer(text.substr(1, comma - 1)) : std::nullopt;
  const auto end = framed ? parse_integer(text.substr(comma + 1, text.size() - comma - 2)) : std::nullopt;
  if (!first || !end || *first < 0 || *first >= *end || *end > kDevices) {
    refuse_request("--device_num '{}' must be \"[FIRST,END)\" with 0 <= FIRST < END <= {}, e.g. \"[0,8)\" or \"[4,8)\"",
                   cut_text(text), kDevices);
  }
  std::vector<int> range;
  for (auto i = *first; i < *end; ++i) range.push_back(static_cast<int>(i));
  return range;
}

std::vector<int> parse_visible(std::string_view text) {
  std::vector<int> devices;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const auto comma = rest.find(',');
    const auto device = parse_integer(rest.substr(0, comma));
    if (!device || *device < 0 || *device >= kDevices ||
        std::find(devices.begin(), devices.end(), *device) != devices.end()) {
      refuse_request("--visible_devices '{}' must list different devices from 0 to {}, e.g. 4,5,6,7", cut_text(text),
                     kDevices - 1);
    }
    devices.push_back(static_cast<int>(*device));
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
  }
  return devices;
}

Json server_of(const std::vector<RankTableDevice>& devices) {
  Json server;
  server["server_id"] = devices.front().server;
  if (devices.front().address != devices.front().server) server["server_ip"] = devices.front().address;
  for (const auto& one : devices) {
    server["device"].push_back({{"device_id", std::to_string(one.device)},
                                {"device_ip", one.device_ip},
                                {"rank_id", std::to_string(one.rank)}});
  }
  server["host_nic_ip"] = "reserve";
  return server;
}

std::string print(const std::vector<std::vector<RankTableDevice>>& servers) {
  Json root;
  root["version"] = "1.0";
  root["server_count"] = std::to_string(servers.size());
  for (const auto& devices : servers) root["server_list"].push_back(server_of(devices));
  root["status"] = "completed";
  return root.dump(4) + "\n";
}

}  // namespace

DeviceAddresses parse_device_addresses(std::string_view text) {
  constexpr std::string_view kKey = "address_";
  DeviceAddresses addresses;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto equals = line.find('=');
    if (!line.starts_with(kKey) || equals == std::string_view::npos) continue;
    const auto device = parse_integer(line.substr(kKey.size(), equals - kKey.size()));
    const auto address = line.substr(equals + 1);
    if (device) addresses[static_cast<int>(*device)] = address.substr(0, address.find_first_of(" \t\r"));
  }
  return addresses;
}

RankTableFile make_rank_table(const RankTableRequest& request, const DeviceAddresses& addresses) {
  const auto range = parse_range(request.device_num);
  const auto visible = parse_visible(request.visible_devices);
  if (request.server_ip.empty()) refuse_request("--server_ip is empty; give this host's address");
  RankTable table;
  for (const int logical : range) {
    if (logical >= static_cast<int>(visible.size())) {
      refuse_request("--device_num {} needs {} devices, but --visible_devices {} lists {}", request.device_num,
                     range.back() + 1, request.visible_devices, visible.size());
    }
    RankTableDevice device;
    device.rank = static_cast<int>(table.devices.size());
    device.device = visible[static_cast<std::size_t>(logical)];
    device.server = device.address = request.server_ip;
    device.path = "--device_num " + request.device_num;
    const auto address = addresses.find(device.device);
    if (address == addresses.end()) {
      refuse_request(
          "device {} has no address; add a line such as address_{}=192.168.100.101 to the file of --hccn_conf",
          device.device, device.device);
    }
    device.device_ip = address->second;
    table.devices.push_back(device);
  }
  check_device_groups(table);
  return {fmt::format("hccl_{}p_{}_{}.json", range.size(), fmt::join(range, ""), request.server_ip),
          print({table.devices})};
}

RankTableFile merge_rank_tables(const std::vector<RankTable>& tables) {
  RankTable merged;
  std::vector<std::vector<RankTableDevice>> servers;
  std::map<std::string, std::string> files;  // for each server
  for (const auto& table : tables) {
    for (const auto& server : table.servers()) {
      if (const auto [first, added] = files.emplace(server, table.file); !added) {
        throw Error(ErrorKind::config, "rank_table",
                    fmt::format("server \"{}\" is in {} too; give each server's table once", server, first->second),
                    {table.file, 0});
      }
      auto devices = table.of_server(server);
      for (auto& one : devices) {
        one.rank = static_cast<int>(merged.devices.size());
        merged.devices.push_back(one);
      }
      servers.push_back(std::move(devices));
    }
  }
  check_device_groups(merged);
  return {fmt::format("hccl_{}s_{}p.json", servers.size(), merged.devices.size()), print(servers)};
}

}  // namespace lockstep
