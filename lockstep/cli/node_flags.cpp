#include <fmt/format.h>
#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/cli/node_flags.h>
#include <lockstep/cli/rdzv_conf.h>
#include <lockstep/cli/refuse.h>
#include <lockstep/train/configuration/config_keys.h>
#include <lockstep/world/start.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <limits>
#include <sstream>
#include <string_view>

namespace lockstep::cli {
namespace {

constexpr std::int64_t kMostNodes = 65536;
constexpr std::int64_t kHighestPort = 65535;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

int parse_node_rank(const NodeFlags& flags, int nodes) {
  const auto is_host = parse_rdzv_conf(flags.rdzv_conf).is_host;
  if (!flags.node_rank && nodes > 1 && is_host != true) {
    refuse("--nnodes {} needs --node_rank, the number of this node from 0 to {} (or --rdzv_backend c10d)", nodes,
           nodes - 1);
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
  if (port < 1 || port > kHighestPort) refuse("{} {} is not a port; ports are from 1 to {}", flag, port, kHighestPort);
}

/// HOST, HOST:PORT, [IPV6] or [IPV6]:PORT.
Endpoint parse_endpoint(const std::string& text, std::uint16_t default_port) {
  const bool bracketed = text.starts_with('[');
  const auto end = bracketed ? text.find(']') : text.rfind(':');
  const std::string host = bracketed ? text.substr(1, end == std::string::npos ? 0 : end - 1) : text.substr(0, end);
  const std::string rest = end == std::string::npos ? "" : text.substr(bracketed ? end + 1 : end);
  const auto port = rest.empty() ? std::optional<std::int64_t>(default_port)
                                 : (rest.starts_with(':') ? parse_integer(rest.substr(1)) : std::nullopt);
  if (!port || host.empty()) refuse("--rdzv_endpoint '{}' must be HOST or HOST:PORT", text);
  check_port("the port of --rdzv_endpoint", *port);
  return {host, static_cast<std::uint16_t>(*port)};
}

void refuse_other_flags_beside_nodes(const NodeFlags& flags) {
  if (flags.nnodes == "1" && !flags.node_rank && !flags.master_addr && !flags.master_port &&
      flags.rdzv_endpoint.empty() && flags.rdzv_conf.empty() && flags.rdzv_backend == "static" && !flags.standalone &&
      !flags.max_restarts) {
    return;
  }
  refuse(
      "--nodes {} says how many nodes there are, which this is and where they meet; leave out --nnodes, --node_rank, "
      "--master_*, --rdzv_*, --standalone and --max_restarts",
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

void check(const NodeFlags& flags) {
  const auto nodes = node_count_of(flags);
  if (flags.standalone && nodes.most > 1) refuse("--standalone is one node, and --nnodes is {}", flags.nnodes);
  const std::string& backend = flags.rdzv_backend;
  if (backend == "static" || backend == "c10d" || backend == "etcd") return;
  if (backend == "etcd-v2") {
    refuse("--rdzv_backend etcd-v2: version 2 of etcd's API is not supported; version 3 is, as --rdzv_backend etcd");
  }
  fail(ErrorKind::unsupported, "run",
       "--rdzv_backend '{}' is not part of this version; there are static, c10d and etcd", backend);
}

/// RANK and WORLD_SIZE of a shell, in which nobody started several of these.
bool set_by_hand(const World& outer, const Environment& environment) {
  return outer.launcher == "pytorch" && !find(environment, "LOCAL_RANK") && !find(environment, "TORCHELASTIC_RUN_ID");
}

/// The launcher that started this process as one of several.
std::optional<World> outer_launcher(const Environment& environment) {
  for (const auto& name : launchers_here(environment)) {
    auto outer = detect_world(environment, name);
    if (outer.size > 1 && !set_by_hand(outer, environment)) return outer;
  }
  return std::nullopt;
}

}  // namespace

NodeCount node_count_of(const NodeFlags& flags) {
  const std::string& text = flags.nnodes;
  const auto colon = text.find(':');
  const auto low = parse_integer(text.substr(0, colon));
  const auto high = colon == std::string::npos ? low : parse_integer(text.substr(colon + 1));
  if (!low || !high || *low < 1 || *high < *low || *high > kMostNodes) {
    refuse("--nnodes '{}' must be a number of nodes from 1 to {}, or MIN:MAX", text, kMostNodes);
  }
  return {static_cast<int>(*low), static_cast<int>(*high)};
}

int given_node_rank(const NodeFlags& flags) { return parse_node_rank(flags, node_count_of(flags).most); }

std::optional<Endpoint> endpoint_of(const NodeFlags& flags, std::uint16_t default_port) {
  if (!flags.rdzv_endpoint.empty()) {
    if (flags.master_addr || flags.master_port) {
      refuse("--rdzv_endpoint and --master_addr or --master_port say the same; give one of them");
    }
    return parse_endpoint(flags.rdzv_endpoint, default_port);
  }
  const auto port = flags.master_port.value_or(kStaticPort);
  check_port("--master_port", port);
  if (!flags.master_addr && !flags.master_port) return std::nullopt;
  if (!flags.master_addr && node_count_of(flags).most > 1) return std::nullopt;
  return Endpoint{flags.master_addr.value_or("127.0.0.1"), static_cast<std::uint16_t>(port)};
}

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
  add("--nnodes", flags.nnodes, "How many nodes: N, or MIN:MAX for a job that grows and shrinks (default: 1)",
      "N|MIN:MAX");
  add("--node-rank,--node_rank", flags.node_rank, "The number of this node (static)", "N");
  add("--master-addr,--master_addr", flags.master_addr, "Address of node 0 (static)", "HOST");
  add("--master-port,--master_port", flags.master_port, "Port of node 0 where the nodes meet (default: 29500)", "PORT");
  add("--rdzv-backend,--rdzv_backend", flags.rdzv_backend,
      "static (nodes with given numbers; default), c10d (one of the launchers holds the store where they meet), etcd "
      "(an etcd does, so that any launcher may be lost)",
      "NAME");
  add("--rdzv-endpoint,--rdzv_endpoint", flags.rdzv_endpoint,
      "Where the nodes meet, the same on all of them (port by default: 29400 for c10d, 2379 for etcd, of which "
      "several servers may be given with commas)",
      "HOST[:PORT]");
  add("--rdzv-id,--rdzv_id", flags.rdzv_id, "Name of the job, the same on all nodes", "NAME");
  add("--rdzv-conf,--rdzv_conf", flags.rdzv_conf,
      "is_host, join_timeout, last_call_timeout, replace_timeout, close_timeout, read_timeout, keep_alive_interval, "
      "keep_alive_max_attempt; for etcd: lease, protocol, ca_cert, ssl_cert, ssl_cert_key",
      "KEY=VALUE,...");
  command.add_flag("--standalone", flags.standalone, "The whole job is here, whatever the --rdzv_* flags say");
  add("--max-restarts,--max_restarts", flags.max_restarts,
      "How many ranks may be replaced after they were lost, and how often all ranks are restarted where that does "
      "not help or the program cannot do it (default: 3 replacements, and all ranks are not restarted)",
      "N");
  add("--on-loss,--on_loss", flags.on_loss,
      "When a rank is lost: replace (default: it is started again and the others go on from memory, where the program "
      "can, as 'lockstep train' does) or restart (all ranks are restarted, as --max-restarts allows)",
      "WHAT");
  add("--monitor-interval,--monitor_interval", flags.monitor_interval,
      "Seconds from one look at the job to the next (default: 0.1)", "SECONDS");
  add("--local-addr,--local_addr", flags.local_addr, "Address at which the other nodes reach this one", "HOST");
}

int replacements_of(const NodeFlags& flags) {
  if (flags.on_loss == "restart") return 0;
  if (flags.on_loss != "replace") refuse("--on-loss '{}' must be replace or restart", flags.on_loss);
  return static_cast<int>(
      std::clamp<std::int64_t>(flags.max_restarts.value_or(kReplacements), 0, std::numeric_limits<int>::max()));
}

std::optional<World> first_rank_of(const NodeFlags& flags, int processes, const Environment& environment) {
  if (!flags.nodes.empty()) {
    refuse_other_flags_beside_nodes(flags);
    const NodeList list = node_list_of(flags, processes);
    return detail::start_of_node_list(list, detail::find_own_nodes(list), environment).world;
  }
  const int node = parse_node_rank(flags, 1);
  const auto endpoint = endpoint_of(flags, kStaticPort);
  if (!endpoint || flags.standalone) return std::nullopt;
  World world;
  world.rank = node * processes;
  world.size = processes;
  world.local_size = processes;
  world.meeting = Meeting::tcp;
  world.master_addr = endpoint->host;
  world.master_port = endpoint->port;
  return world;
}

bool is_one_node(const NodeFlags& flags) {
  return flags.standalone || (flags.rdzv_backend == "static" && node_count_of(flags).most == 1);
}

bool needs_agent(const NodeFlags& flags) {
  if (!flags.nodes.empty()) return false;
  check(flags);
  return flags.max_restarts.value_or(0) != 0 || !is_one_node(flags);
}

std::optional<std::string> judge_outer_launcher(const NodeFlags& flags, const Environment& environment) {
  if (flags.standalone || !flags.nodes.empty() || !is_one_node(flags)) return std::nullopt;
  const auto outer = outer_launcher(environment);
  if (!outer) return std::nullopt;
  constexpr std::array<std::string_view, 3> kStartPrograms = {"open_mpi", "mpich", "slurm"};
  const bool refuses = std::ranges::find(kStartPrograms, outer->launcher) != kStartPrograms.end();
  auto what = fmt::format("this launcher is process {} of {} of {} ({}), and each of them starts a job of its own",
                          outer->rank, outer->size, outer->launcher, outer->evidence);
  if (!refuses) return what + ", because --nnodes is 1 (--standalone: it is meant so)";
  fail(ErrorKind::environment, "run",
       "{}. For one job start the program without 'lockstep run', or one launcher on each node with --nnodes {} (and "
       "--node_rank, --master_addr); where {} separate jobs are meant, say --standalone",
       what, outer->size, outer->size);
}

}  // namespace lockstep::cli
