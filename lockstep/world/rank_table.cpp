// The reader of rank tables. JSON is parsed as YAML, because the YAML parser keeps line numbers.
#include <lockstep/base/files.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>
#include <lockstep/base/yaml_text.h>
#include <lockstep/world/rank_table.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <utility>

namespace lockstep {
namespace {

constexpr std::int64_t kMostRanks = 65536;
constexpr std::int64_t kHighestDevice = 7;

template <typename... Args>
[[noreturn]] void fail_at(const FilePosition& position, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::config, "rank_table", fmt::format(format, std::forward<Args>(args)...), position);
}

// A value and its path: "server_list[0].device[3].rank_id".
struct Place {
  const ConfigNode* node;
  std::string path;

  const FilePosition& position() const { return node->position; }
};

Place item(const Place& list, std::size_t index) {
  return {&list.node->items[index], fmt::format("{}[{}]", list.path, index)};
}

std::optional<Place> find_key(const Place& map, std::string_view key) {
  const ConfigNode* node = map.node->find(key);
  if (node == nullptr) return std::nullopt;
  return Place{node, map.path.empty() ? std::string(key) : fmt::format("{}.{}", map.path, key)};
}

Place require(const Place& map, std::string_view key) {
  if (auto found = find_key(map, key)) return *std::move(found);
  fail_at(map.position(), "{} has no \"{}\"; make the file again with 'lockstep rank-table'",
          map.path.empty() ? "the table" : map.path, key);
}

Place require_list(const Place& map, std::string_view key) {
  Place list = require(map, key);
  if (list.node->kind != ConfigNode::Kind::list || list.node->items.empty()) {
    fail_at(list.position(), "{} must be a list of at least one entry, found {}", list.path,
            list.node->kind == ConfigNode::Kind::list ? "an empty one" : describe_found(*list.node));
  }
  return list;
}

std::string require_text(const Place& map, std::string_view key) {
  const Place text = require(map, key);
  if (text.node->kind != ConfigNode::Kind::scalar || text.node->scalar.empty()) {
    fail_at(text.position(), "{} must be a text, found {}", text.path, describe_found(*text.node));
  }
  return text.node->scalar;
}

std::string text_or(const Place& map, std::string_view key, std::string otherwise) {
  const auto text = find_key(map, key);
  return text && text->node->kind == ConfigNode::Kind::scalar && !text->node->scalar.empty() ? text->node->scalar
                                                                                             : std::move(otherwise);
}

std::int64_t to_number(const Place& number, std::int64_t low, std::int64_t high) {
  const bool scalar = number.node->kind == ConfigNode::Kind::scalar;
  const auto value = scalar ? parse_integer(number.node->scalar) : std::nullopt;
  if (!value || *value < low || *value > high) {
    fail_at(number.position(), "{} must be a whole number from {} to {}, found {}", number.path, low, high,
            describe_found(*number.node));
  }
  return *value;
}

void check_count(const Place& map, std::string_view key, std::string_view list_name, std::size_t listed) {
  const auto count = find_key(map, key);
  if (!count) return;
  const auto value = to_number(*count, 0, kMostRanks);
  if (value == static_cast<std::int64_t>(listed)) return;
  fail_at(count->position(), "{} is {}, but {} has {}; correct the count or the list", count->path, value, list_name,
          listed);
}

RankTableDevice read_device(const Place& device, const Place& rank_holder, std::string server, std::string address) {
  RankTableDevice read;
  const Place rank = require(rank_holder, "rank_id");
  read.rank = static_cast<int>(to_number(rank, 0, kMostRanks));
  read.device = static_cast<int>(to_number(require(device, "device_id"), 0, kHighestDevice));
  read.server = std::move(server);
  read.address = std::move(address);
  read.device_ip = text_or(device, "device_ip", "");
  read.path = rank_holder.path;
  read.position = rank.position();
  return read;
}

void read_server(const Place& server, RankTable& table) {
  const std::string id = require_text(server, "server_id");
  const std::string address = text_or(server, "server_ip", id);
  const Place devices = require_list(server, "device");
  for (std::size_t i = 0; i < devices.node->items.size(); ++i) {
    table.devices.push_back(read_device(item(devices, i), item(devices, i), id, address));
  }
}

void read_servers(const Place& root, RankTable& table) {
  const Place servers = require_list(root, "server_list");
  check_count(root, "server_count", "server_list", servers.node->items.size());
  std::map<std::string, int> lines;
  for (std::size_t i = 0; i < servers.node->items.size(); ++i) {
    const Place server = item(servers, i);
    const auto id = require_text(server, "server_id");
    const int line = require(server, "server_id").position().line;
    if (const auto [first, added] = lines.emplace(id, line); !added) {
      fail_at({table.file, line}, "server_id \"{}\" occurs twice, first in line {}; a server has one entry", id,
              first->second);
    }
    read_server(server, table);
  }
}

// Reads the older format: a flat list with one device per entry.
void read_instances(const Place& group, RankTable& table) {
  const Place instances = require_list(group, "instance_list");
  check_count(group, "instance_count", instances.path, instances.node->items.size());
  check_count(group, "device_num", instances.path, instances.node->items.size());
  for (std::size_t i = 0; i < instances.node->items.size(); ++i) {
    const Place instance = item(instances, i);
    const Place devices = require_list(instance, "devices");
    if (devices.node->items.size() != 1) {
      fail_at(devices.position(), "{} must hold one device, found {}; each rank is an instance of its own",
              devices.path, devices.node->items.size());
    }
    const std::string id = require_text(instance, "server_id");
    table.devices.push_back(read_device(item(devices, 0), instance, id, text_or(instance, "server_ip", id)));
  }
}

void read_groups(const Place& root, RankTable& table) {
  const Place groups = require_list(root, "group_list");
  check_count(root, "group_count", "group_list", groups.node->items.size());
  for (std::size_t i = 0; i < groups.node->items.size(); ++i) {
    const Place group = item(groups, i);
    const std::size_t before = table.devices.size();
    read_instances(group, table);
    std::set<std::string> servers;
    for (std::size_t d = before; d < table.devices.size(); ++d) servers.insert(table.devices[d].server);
    check_count(group, "server_num", fmt::format("{}.instance_list names servers and", group.path), servers.size());
  }
}

void check_status(const Place& root) {
  const Place status = require(root, "status");
  if (status.node->scalar == "completed") return;
  fail_at(status.position(),
          "status must be \"completed\", found {}: the table is not finished; wait until it is written",
          describe_found(*status.node));
}

void check_ranks(RankTable& table) {
  const auto count = table.devices.size();
  std::map<int, const RankTableDevice*> ranks;
  std::map<std::pair<std::string, int>, const RankTableDevice*> devices;
  for (const auto& one : table.devices) {
    if (one.rank >= static_cast<int>(count)) {
      fail_at(one.position, "rank_id \"{}\" in {} is not below the {} device{} listed; ranks must be 0..{}", one.rank,
              one.path, count, count == 1 ? "" : "s", count - 1);
    }
    if (const auto [first, added] = ranks.emplace(one.rank, &one); !added) {
      fail_at(one.position, "rank_id \"{}\" in {} occurs twice, first in line {}; each device has a rank of its own",
              one.rank, one.path, first->second->position.line);
    }
    if (const auto [first, added] = devices.emplace(std::pair(one.server, one.device), &one); !added) {
      fail_at(one.position,
              "device_id \"{}\" of server \"{}\" in {} occurs twice, first in {}; each rank has a device of its own",
              one.device, one.server, one.path, first->second->path);
    }
  }
  std::sort(table.devices.begin(), table.devices.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
}

// Replaces tabs first: they may indent JSON, but not YAML.
ConfigNode parse_json(std::string text, const std::string& file) {
  std::replace(text.begin(), text.end(), '\t', ' ');
  try {
    return parse_yaml(text, file);
  } catch (const Error& error) {
    std::string message = error.message();
    constexpr std::string_view kYaml = "not valid YAML";
    if (message.starts_with(kYaml)) message.replace(0, kYaml.size(), "not valid JSON");
    throw Error(ErrorKind::config, "rank_table", message, error.position());
  }
}

}  // namespace

std::vector<std::string> RankTable::servers() const {
  std::vector<std::string> servers;
  for (const auto& one : devices) {
    if (std::find(servers.begin(), servers.end(), one.server) == servers.end()) servers.push_back(one.server);
  }
  return servers;
}

std::vector<RankTableDevice> RankTable::of_server(std::string_view server) const {
  std::vector<RankTableDevice> found;
  std::copy_if(devices.begin(), devices.end(), std::back_inserter(found),
               [&](const RankTableDevice& one) { return one.server == server; });
  return found;
}

RankTable parse_rank_table(std::string_view text, const std::string& file) {
  const ConfigNode node = parse_json(std::string(text), file);
  const Place root{&node, ""};
  if (node.kind != ConfigNode::Kind::map) {
    fail_at({file, 0}, "a rank table is a JSON object, found {}; make one with 'lockstep rank-table'",
            describe_found(node));
  }
  RankTable table;
  table.file = file;
  if (find_key(root, "group_list")) {
    read_groups(root, table);
  } else {
    read_servers(root, table);
  }
  check_status(root);
  check_ranks(table);
  check_device_groups(table);
  return table;
}

RankTable load_rank_table(const std::string& file) {
  const auto text = read_file(file);
  if (!text) {
    fail(ErrorKind::environment, "rank_table",
         "cannot read {}: {}; make one with 'lockstep rank-table'; a path that does not begin with '/' is relative to "
         "the folder in which the program is started",
         file, std::generic_category().message(errno));
  }
  return parse_rank_table(*text, file);
}

namespace {

constexpr std::size_t kAll = 8;

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
