// The flags of `lockstep run` for jobs on several nodes.
#include <fmt/format.h>
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <lockstep/cli/node_flags.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/host_file.h>
#include <lockstep/world/start.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

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
    refuse("--rdzv_conf {} contradicts --node_rank {}: node 0 is the host of the rendezvous", flags.rdzv_conf, node);
  }
  return static_cast<int>(node);
}

void check_port(std::string_view flag, std::int64_t port) {
  if (port < 1 || port > kHighestPort) refuse("{} {} is not a port; ports are from 1 to {}", flag, port, kHighestPort);
}

/// HOST, HOST:PORT, [IPV6], [IPV6]:PORT; and IPV6:PORT, as torchrun reads it: the port follows the last colon.
Endpoint parse_endpoint(const std::string& text, std::uint16_t default_port) {
  const auto colon = text.rfind(':');
  const bool bare_v6 = !text.starts_with('[') && text.find(':') != colon;
  const auto place =
      parse_host_and_port(bare_v6 ? fmt::format("[{}]{}", text.substr(0, colon), text.substr(colon)) : text);
  if (!place) refuse("--rdzv_endpoint '{}' must be HOST or HOST:PORT, a port from 1 to {}", text, kHighestPort);
  return {place->host, place->port.value_or(default_port)};
}

/// In torchrun this means "one node, any port": each launcher would use its own localhost.
bool asks_for_any_port(const NodeFlags& flags) { return flags.rdzv_endpoint.ends_with(":0"); }

void check_port_of_endpoint(const NodeFlags& flags) {
  if (!asks_for_any_port(flags) || flags.standalone || node_count_of(flags).most == 1) return;
  refuse(
      "--rdzv_endpoint {} is any free port of one node, and --nnodes is {}: each node would form a job of its own; "
      "give "
      "the address of one of the nodes and a port, the same on all, e.g. node0:29400",
      flags.rdzv_endpoint, flags.nnodes);
}

void refuse_other_flags_beside_nodes(const NodeFlags& flags) {
  if (flags.nnodes == "1" && !flags.node_rank && !flags.master_addr && !flags.master_port &&
      flags.rdzv_endpoint.empty() && flags.rdzv_conf.empty() && flags.rdzv_backend == "static" && !flags.standalone &&
      !flags.max_restarts) {
    return;
  }
  refuse(
      "--nodes {} gives the number of nodes, the number of this one and their rendezvous; leave out --nnodes, "
      "--node_rank, --master_*, --rdzv_*, --standalone and --max_restarts",
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
  check_port_of_endpoint(flags);
  const std::string& backend = flags.rdzv_backend;
  if (backend == "static" || backend == "c10d" || backend == "etcd") return;
  if (backend == "etcd-v2") {
    refuse("--rdzv_backend etcd-v2: version 2 of etcd's API is not supported; version 3 is, as --rdzv_backend etcd");
  }
  refuse("there is no --rdzv_backend '{}'; there are static, c10d and etcd", backend);
}

/// The launcher that started this process as one of several. Where RANK and WORLD_SIZE are set by hand, there is none.
std::optional<World> outer_launcher(const Environment& environment) {
  for (auto& outer : worlds_here(environment)) {
    if (outer.size > 1 && !detail::set_by_hand(outer, environment)) return outer;
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
      refuse("--rdzv_endpoint and --master_addr or --master_port mean the same; give one of them");
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
  command.add_option("--ctrl-port,--ctrl_port", flags.ctrl_port, "With --nodes: port of the rendezvous on node 0")
      ->type_name("PORT")
      ->needs(nodes);
  const auto add = [&](const std::string& name, auto& value, const std::string& about, const std::string& type) {
    command.add_option(name, value, about)->type_name(type);
  };
  add("--hostfile", flags.hostfile,
      "File of all hosts, node 0 first, of which each line is HOST, HOST slots=N or HOST:N; the same command on each "
      "of "
      "them",
      "FILE");
  add("-H,--hosts,--host", flags.hosts, "The same as A:N,B:N; auto: the hosts that PBS, LSF, SGE or Slurm gave the job",
      "A:N,B:N,...");
  add("--nnodes", flags.nnodes, "How many nodes: N, or MIN:MAX for a job that grows and shrinks (default: 1)",
      "N|MIN:MAX");
  add("--node-rank,--node_rank", flags.node_rank, "The number of this node (static)", "N");
  add("--master-addr,--master_addr", flags.master_addr, "Address of node 0 (static)", "HOST");
  add("--master-port,--master_port", flags.master_port, "Port of the rendezvous on node 0 (default: 29500)", "PORT");
  add("--rdzv-backend,--rdzv_backend", flags.rdzv_backend,
      "static (nodes with given numbers; default), c10d (the launcher on the host of the endpoint runs the job's "
      "service), etcd (any of them does, with its state in etcd, so that each launcher may be lost)",
      "NAME");
  add("--rdzv-endpoint,--rdzv_endpoint", flags.rdzv_endpoint,
      "The rendezvous of the nodes, the same on all of them (port by default: 29400 for c10d, 2379 for etcd, of which "
      "several servers may be given with commas)",
      "HOST[:PORT]");
  add("--rdzv-id,--rdzv_id", flags.rdzv_id, "Name of the job, the same on all nodes", "NAME");
  add("--rdzv-conf,--rdzv_conf", flags.rdzv_conf,
      "is_host, join_timeout, last_call_timeout, replace_timeout, close_timeout, read_timeout, keep_alive_interval, "
      "keep_alive_max_attempt; for etcd: lease, protocol, ca_cert, ssl_cert, ssl_cert_key",
      "KEY=VALUE,...");
  command.add_flag("--standalone", flags.standalone, "The whole job is on this node; --rdzv_* flags are ignored");
  add("--max-restarts,--max_restarts", flags.max_restarts,
      "How many ranks may be replaced after they were lost, and how often all ranks are restarted where that does "
      "not help or the program cannot do it (default: 3 replacements, and all ranks are not restarted)",
      "N");
  add("--on-loss,--on_loss", flags.on_loss,
      "When a rank is lost: replace (default: it is started again and the others go on from memory, where the program "
      "can, as 'lockstep train' does) or restart (all ranks are restarted, as --max-restarts allows)",
      "WHAT");
  add("--monitor-interval,--monitor_interval", flags.monitor_interval,
      "Accepted for torchrun's command lines, without effect: ends of ranks and messages are events", "SECONDS");
  add("--local-addr,--local_addr", flags.local_addr, "Address at which the other nodes reach this one", "HOST");
}

namespace {

constexpr std::int64_t kMsrunPort = 8118;
constexpr std::int64_t kMsrunWorkers = 8;
constexpr int kDaySeconds = 24 * 3600;

bool names_nodes(const NodeFlags& flags) {
  return flags.nnodes != "1" || !flags.rdzv_endpoint.empty() || flags.rdzv_backend != "static" || flags.standalone ||
         !flags.nodes.empty();
}

void set_msrun_rendezvous(NodeFlags& nodes, std::int64_t count) {
  if (nodes.node_rank == -1) nodes.node_rank.reset();
  if (count == 1) {
    // msrun starts its scheduler at this address; the rendezvous of ranks on one node is a free port.
    nodes.node_rank.reset();
    nodes.master_addr.reset();
    nodes.master_port.reset();
    return;
  }
  nodes.nnodes = std::to_string(count);
  if (!nodes.master_addr) {
    refuse("--worker_num and --local_worker_num make {} nodes, which need --master_addr, the address of the first",
           count);
  }
  if (!nodes.master_port) nodes.master_port = kMsrunPort;
  if (nodes.node_rank) return;
  nodes.rdzv_backend = "c10d";  // for nodes without numbers
  nodes.rdzv_endpoint = fmt::format("{}:{}", *nodes.master_addr, *nodes.master_port);
  nodes.master_addr.reset();
  nodes.master_port.reset();
}

void set_msrun_time_out(const std::string& text, NodeFlags& nodes) {
  if (text.empty() || nodes.rdzv_conf.find("join_timeout") != std::string::npos) return;
  const auto seconds = parse_integer(text);
  if (!seconds || *seconds == 0 || *seconds > kDaySeconds) {
    refuse("--cluster_time_out {} must be a number of seconds from 1 to {}, or negative for no limit", text,
           kDaySeconds);
  }
  nodes.rdzv_conf +=
      fmt::format("{}join_timeout={}", nodes.rdzv_conf.empty() ? "" : ",", *seconds < 0 ? kDaySeconds : *seconds);
}

}  // namespace

void add_msrun_flags(CLI::App& command, MsrunFlags& flags) {
  const auto add = [&](const std::string& name, auto& value, const std::string& about, const std::string& type) {
    command.add_option(name, value, about)->type_name(type)->group("Accepted as msrun's");
  };
  add("--worker-num", flags.worker_num, "How many ranks the whole job has", "N");
  add("--local-worker-num", flags.local_worker_num,
      "How many of them this node has: as --nproc-per-node. Nodes without --node-rank get their numbers at the "
      "rendezvous",
      "N");
  add("--join", flags.join, "True: the launcher waits for the ranks, as it always does here", "True|False");
  add("--cluster-time-out", flags.cluster_time_out, "Seconds that nodes wait for each other; negative: without limit",
      "SECONDS");
  add("--bind-core", flags.bind_core, "False; True: ranks are not bound to cores here, and a line reports it",
      "True|False");
}

void apply_msrun_flags(const MsrunFlags& msrun, NodeFlags& nodes, std::string& processes) {
  for (const auto& [flag, value] : {std::pair{"--join", msrun.join}, std::pair{"--bind_core", msrun.bind_core}}) {
    const bool is_map = flag == std::string_view("--bind_core") && value.starts_with('{');
    if (!value.empty() && value != "True" && value != "False" && !is_map) {
      refuse("{} {} must be True or False", flag, value);
    }
  }
  if (!msrun.worker_num && !msrun.local_worker_num) {
    set_msrun_time_out(msrun.cluster_time_out, nodes);
    return;
  }
  if (!processes.empty() || names_nodes(nodes)) {
    refuse(
        "--worker_num and --local_worker_num are msrun's words for --nnodes and --nproc_per_node; leave out "
        "--nproc_per_node, --nnodes, --nodes, --standalone and --rdzv_*");
  }
  const auto workers = msrun.worker_num.value_or(msrun.local_worker_num.value_or(kMsrunWorkers));
  const auto local = msrun.local_worker_num.value_or(workers);
  if (workers < 1 || local < 1 || local > workers || workers % local != 0) {
    refuse(
        "--worker_num {} must be a multiple of --local_worker_num {}, and both above 0: each node has as many ranks "
        "(--hostfile is for nodes that have different numbers)",
        workers, local);
  }
  processes = std::to_string(local);
  if (nodes.master_port) check_port("--master_port", *nodes.master_port);
  set_msrun_time_out(msrun.cluster_time_out, nodes);
  set_msrun_rendezvous(nodes, workers / local);
}

std::vector<std::string> remarks_on_msrun(const MsrunFlags& flags) {
  std::vector<std::string> remarks;
  if (flags.join == "False") {
    remarks.emplace_back("--join False: this launcher waits for its ranks anyway, and its exit code is theirs");
  }
  if (!flags.bind_core.empty() && flags.bind_core != "False") {
    remarks.emplace_back(
        "--bind_core: ranks are not bound to cores here; start them under taskset or numactl for that");
  }
  return remarks;
}

namespace {

std::vector<HostSlots> read_hosts(const NodeFlags& flags, const Environment& environment) {
  if (flags.hostfile.empty() && flags.hosts != "auto") return parse_host_list(flags.hosts, "--hosts");
  if (!flags.hostfile.empty()) {
    const auto text = read_file(flags.hostfile);
    if (!text) refuse("--hostfile {}: {}", flags.hostfile, std::generic_category().message(errno));
    return parse_host_file(*text, flags.hostfile);
  }
  if (auto allocated = find_allocated_hosts(environment)) return std::move(allocated->hosts);
  refuse(
      "--hosts auto: no batch system lists the hosts (PBS_NODEFILE, LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS, "
      "LSB_HOSTS, PE_HOSTFILE, LOADL_HOSTFILE and SLURM_JOB_NODELIST are not set); give --hosts A:N,B:N or --hostfile");
}

int own_index(const std::vector<HostSlots>& hosts, const Environment& environment) {
  NodeList list;
  for (const HostSlots& host : hosts) list.addresses.push_back(host.host);
  list.ctrl_port = kStaticPort;  // irrelevant for the index
  return detail::start_of_node_list(list, detail::find_own_nodes(list), environment).world.rank;
}

}  // namespace

void apply_hosts(NodeFlags& nodes, std::string& processes, const Environment& environment) {
  if (nodes.hosts.empty() && nodes.hostfile.empty()) return;
  if (!nodes.hosts.empty() && !nodes.hostfile.empty()) refuse("--hosts and --hostfile mean the same; give one of them");
  if (names_nodes(nodes) || nodes.node_rank || nodes.master_addr) {
    refuse(
        "--hosts and --hostfile give the number of nodes, the number of this one and their rendezvous; leave out "
        "--nodes, --nnodes, --node_rank, --master_addr, --standalone and --rdzv_*");
  }
  const auto hosts = read_hosts(nodes, environment);
  const auto own = static_cast<std::size_t>(own_index(hosts, environment));
  if (processes.empty()) processes = std::to_string(hosts[own].slots);
  if (hosts.size() == 1) return;
  nodes.nnodes = std::to_string(hosts.size());
  nodes.node_rank = static_cast<std::int64_t>(own);
  nodes.master_addr = hosts.front().host;
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
  if (!endpoint || flags.standalone || asks_for_any_port(flags)) return std::nullopt;
  World world;
  world.rank = node * processes;
  world.size = processes;
  world.local_size = processes;
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = endpoint->host;
  world.master_port = endpoint->port;
  return world;
}

bool is_one_node(const NodeFlags& flags) {
  if (asks_for_any_port(flags) && node_count_of(flags).most == 1) return true;
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
  if (!outer) {
    const auto others = detail::other_hosts(environment);
    if (!others) return std::nullopt;
    return *others +
           ": the job is on this host alone (use --hosts auto for all of them, or --standalone for this host alone)";
  }
  constexpr std::array<std::string_view, 7> kStartPrograms = {"open_mpi", "mvapich", "mpich", "slurm",
                                                              "flux",     "jsm",     "pals"};
  const bool refuses = std::ranges::find(kStartPrograms, outer->launcher) != kStartPrograms.end();
  auto what = fmt::format("this launcher is process {} of {} of {} ({}), and each of them starts a job of its own",
                          outer->rank, outer->size, outer->launcher, outer->evidence);
  if (!refuses) return what + ", because --nnodes is 1 (if this is intended, give --standalone)";
  fail(ErrorKind::environment, "run",
       "{}. For one job start the program without 'lockstep run', or one launcher on each node with --nnodes {} (and "
       "--node_rank, --master_addr); for {} separate jobs give --standalone",
       what, outer->size, outer->size);
}

}  // namespace lockstep::cli
