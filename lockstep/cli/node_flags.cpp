#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/cli/node_flags.h>
#include <lockstep/world/start.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <sstream>
#include <string_view>

namespace lockstep::cli {
namespace {

constexpr std::int64_t kMostNodes = 65536;
constexpr std::int64_t kHighestPort = 65535;
constexpr std::int64_t kStaticPort = 29500;  // torch.distributed.launch's
constexpr std::int64_t kC10dPort = 29400;    // torch.distributed.run's

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::invalid_argument, "run", format, std::forward<Args>(args)...);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

int parse_nodes(const std::string& text) {
  const auto colon = text.find(':');
  const auto low = parse_integer(text.substr(0, colon));
  const auto high = colon == std::string::npos ? low : parse_integer(text.substr(colon + 1));
  if (!low || !high || *low < 1 || *high < *low || *high > kMostNodes) {
    refuse("--nnodes '{}' must be a number of nodes from 1 to {}", text, kMostNodes);
  }
  if (*low != *high) {
    fail(ErrorKind::unsupported, "run",
         "--nnodes {}: jobs that grow and shrink are not part of this version; give one number", text);
  }
  return static_cast<int>(*low);
}

// is_host is the one setting that says something about who this node is.
std::optional<bool> parse_is_host(const std::string& conf) {
  std::optional<bool> is_host;
  for (const auto& setting : split(conf)) {
    const auto equals = setting.find('=');
    const auto value = equals == std::string::npos ? std::nullopt : parse_bool(setting.substr(equals + 1));
    if (setting.substr(0, equals) != "is_host" || !value) {
      refuse("--rdzv_conf '{}': '{}' is no setting of this version; it reads is_host=1 and is_host=0", conf, setting);
    }
    is_host = value;
  }
  return is_host;
}

int parse_node_rank(const NodeFlags& flags, int nodes) {
  const auto is_host = parse_is_host(flags.rdzv_conf);
  if (!flags.node_rank && nodes > 1 && is_host != true) {
    refuse("--nnodes {} needs --node_rank, the number of this node from 0 to {}", nodes, nodes - 1);
  }
  const auto node = flags.node_rank.value_or(0);
  if (node < 0 || node >= nodes) {
    refuse("--node_rank {} must be from 0 to {}, as --nnodes is {}", node, nodes - 1, nodes);
  }
  if (is_host && *is_host != (node == 0)) {
    refuse("--rdzv_conf {} contradicts --node_rank {}: node 0 is the host of the meeting", flags.rdzv_conf, node);
  }
  return static_cast<int>(node);
}

void check_port(std::string_view flag, std::int64_t port) {
  if (port < 1 || port > kHighestPort) refuse("{} {} is no port; ports are from 1 to {}", flag, port, kHighestPort);
}

void meet_at_endpoint(const NodeFlags& flags, World& world) {
  const std::string& text = flags.rdzv_endpoint;
  const auto colon = text.rfind(':');
  const auto port = colon == std::string::npos ? std::optional(kC10dPort) : parse_integer(text.substr(colon + 1));
  if (!port || colon == 0) refuse("--rdzv_endpoint '{}' must be HOST or HOST:PORT", text);
  check_port("the port of --rdzv_endpoint", *port);
  world.master_addr = text.substr(0, colon);
  world.master_port = static_cast<std::uint16_t>(*port);
}

void meet(const NodeFlags& flags, int nodes, World& world) {
  world.meeting = Meeting::tcp;
  if (!flags.rdzv_endpoint.empty()) {
    if (flags.master_addr || flags.master_port) {
      refuse("--rdzv_endpoint and --master_addr or --master_port say the same; give one of them");
    }
    meet_at_endpoint(flags, world);
    return;
  }
  if (nodes > 1 && !flags.master_addr) {
    refuse("--nnodes {} needs --master_addr, the address of node 0, or --rdzv_endpoint HOST:PORT", nodes);
  }
  const auto port = flags.master_port.value_or(kStaticPort);
  check_port("--master_port", port);
  world.master_addr = flags.master_addr.value_or("127.0.0.1");
  world.master_port = static_cast<std::uint16_t>(port);
}

void refuse_other_flags_beside_nodes(const NodeFlags& flags) {
  if (flags.nnodes == "1" && !flags.node_rank && !flags.master_addr && !flags.master_port &&
      flags.rdzv_endpoint.empty() && flags.rdzv_conf.empty()) {
    return;
  }
  refuse(
      "--nodes {} says how many nodes there are, which this is and where they meet; leave out --nnodes, --node_rank, "
      "--master_* and --rdzv_*",
      flags.nodes);
}

NodeList node_list_of(const NodeFlags& flags, int processes) {
  NodeList list;
  list.addresses = split(flags.nodes);
  list.devices_per_node = processes;
  if (flags.ctrl_port) {
    check_port("--ctrl_port", *flags.ctrl_port);
    list.ctrl_port = static_cast<std::uint16_t>(*flags.ctrl_port);
  }
  return list;
}

}  // namespace

void add_node_flags(CLI::App& command, NodeFlags& flags) {
  auto* nodes = command.add_option("--nodes", flags.nodes,
                                   "Addresses of all nodes, node 0 first: the same command on each of them and nothing "
                                   "else");
  nodes->type_name("A,B,...");
  command.add_option("--ctrl-port,--ctrl_port", flags.ctrl_port, "With --nodes: port of node 0 where the nodes meet")
      ->type_name("PORT")
      ->needs(nodes);
  const auto add = [&](const std::string& name, auto& value, const std::string& about, const std::string& type) {
    command.add_option(name, value, about)->type_name(type);
  };
  add("--nnodes", flags.nnodes, "How many nodes (default: 1)", "N");
  add("--node-rank,--node_rank", flags.node_rank, "The number of this node", "N");
  add("--master-addr,--master_addr", flags.master_addr, "Address of node 0", "HOST");
  add("--master-port,--master_port", flags.master_port, "Port of node 0 where the ranks meet (default: 29500)", "PORT");
  add("--rdzv-backend,--rdzv_backend", flags.rdzv_backend, "static or c10d, which are the same here", "NAME");
  add("--rdzv-endpoint,--rdzv_endpoint", flags.rdzv_endpoint, "Address and port of node 0 in one", "HOST[:PORT]");
  add("--rdzv-id,--rdzv_id", flags.rdzv_id, "Name of the job, passed on to the ranks", "NAME");
  add("--rdzv-conf,--rdzv_conf", flags.rdzv_conf, "is_host=1 on node 0", "KEY=VALUE");
}

std::optional<World> first_rank_of(const NodeFlags& flags, int processes, const Environment& environment) {
  if (!flags.nodes.empty()) {
    refuse_other_flags_beside_nodes(flags);
    const NodeList list = node_list_of(flags, processes);
    return detail::start_of_node_list(list, detail::find_own_nodes(list), environment).world;
  }
  if (flags.rdzv_backend != "static" && flags.rdzv_backend != "c10d") {
    fail(ErrorKind::unsupported, "run", "--rdzv_backend '{}' is not part of this version; there are static and c10d",
         flags.rdzv_backend);
  }
  const int nodes = parse_nodes(flags.nnodes);
  const int node = parse_node_rank(flags, nodes);
  if (nodes == 1 && !flags.master_port && flags.rdzv_endpoint.empty()) return std::nullopt;
  World world;
  world.rank = node * processes;
  world.size = nodes * processes;
  world.local_size = processes;
  meet(flags, nodes, world);
  return world;
}

}  // namespace lockstep::cli
