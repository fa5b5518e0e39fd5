// The start from what the user gives to each node: a list of nodes that all run the same command; or the arguments
// --init_method, --rank and --world_size of programs written for mp.spawn: one process per node, which starts
// several ranks.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/world/host_addresses.h>
#include <lockstep/world/launcher_variables.h>
#include <lockstep/world/start.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace lockstep::detail {
namespace {

template <typename... Args>
[[noreturn]] void refuse_list(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::config, "nodes", format, std::forward<Args>(args)...);
}

void check_list(const NodeList& list) {
  const auto& addresses = list.addresses;
  if (addresses.empty()) refuse_list("the list of nodes is empty; give the address of each, node 0 first");
  for (auto one = addresses.begin(); one != addresses.end(); ++one) {
    if (one->empty()) refuse_list("node {} has no address", one - addresses.begin());
    if (std::find(addresses.begin(), one, *one) == one) continue;
    refuse_list("{} occurs twice among the nodes {}; each node has an address of its own", cut_text(*one),
                cut_text(fmt::format("{}", fmt::join(addresses, ", ")), 1000));
  }
  if (addresses.size() > 1 && !list.ctrl_port) {
    refuse_list("{} nodes need ctrl_port, a port of node 0 ({}) that is free and the same on all nodes, e.g. 9988",
                addresses.size(), cut_text(addresses.front()));
  }
  if (list.devices_per_node < 1) refuse_list("devices_per_node is {}; a node has at least 1", list.devices_per_node);
}

int find_named(const NodeList& list, const std::string& name) {
  const auto found = std::find(list.addresses.begin(), list.addresses.end(), name);
  if (found == list.addresses.end()) {
    fail(ErrorKind::environment, "nodes", "LOCKSTEP_NODE_ADDR='{}' is none of the nodes {}; set it to one of them",
         cut_text(name), cut_text(fmt::format("{}", fmt::join(list.addresses, ", ")), 1000));
  }
  return static_cast<int>(found - list.addresses.begin());
}

int find_self(const NodeList& list, const std::vector<int>& own, const Environment& environment) {
  if (const auto name = find(environment, "LOCKSTEP_NODE_ADDR")) return find_named(list, *name);
  if (own.size() == 1) return own.front();
  if (own.empty()) {
    fail(ErrorKind::environment, "nodes",
         "none of the nodes {} is an address of this host; correct the list, or set LOCKSTEP_NODE_ADDR to the entry "
         "of this host",
         fmt::join(list.addresses, ", "));
  }
  fail(ErrorKind::environment, "nodes",
       "{} of the nodes {} are addresses of this host; set LOCKSTEP_NODE_ADDR to the address of this process",
       own.size(), fmt::join(list.addresses, ", "));
}

constexpr std::int64_t kMostNodes = 65536;

template <typename... Args>
[[noreturn]] void refuse_arguments(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::invalid_argument, "world", format, std::forward<Args>(args)...);
}

void check_arguments(const InitArguments& arguments) {
  if (!arguments.rank || !arguments.world_size) {
    refuse_arguments("--{} is given but --{} is not; give both: the number of this node, and how many nodes there are",
                     arguments.rank ? "rank" : "world_size", arguments.rank ? "world_size" : "rank");
  }
  if (*arguments.world_size < 1 || *arguments.world_size > kMostNodes) {
    refuse_arguments("--world_size {} must be from 1 to {}; it is the number of nodes", *arguments.world_size,
                     kMostNodes);
  }
  if (*arguments.rank < 0 || *arguments.rank >= *arguments.world_size) {
    refuse_arguments(
        "--rank {} must be from 0 to {}; it is the number of this node, of which --world_size {} are there",
        *arguments.rank, *arguments.world_size - 1, *arguments.world_size);
  }
}

void agree(std::string_view flag, std::int64_t given, const Environment& environment, std::string_view variable) {
  const auto value = find_integer(environment, variable, 0, std::numeric_limits<std::int64_t>::max());
  if (!value || *value == given) return;
  fail(ErrorKind::environment, "world", "{} {} contradicts {}={}; leave the argument out, or unset {}", flag, given,
       variable, *value, variable);
}

void meet_nodes(const Environment& environment, int nodes, World& world) {
  if (world.size == 1) return;
  if (meet_by_init_method(environment, world)) return;
  const auto address = find_master_addr(environment);
  const auto port = find_master_port(environment);
  world.rendezvous = Rendezvous::tcp;
  if (nodes > 1 && (!address || !port)) {
    refuse_arguments(
        "--world_size {} needs --init_method tcp://HOST:PORT with the address of node 0, or MASTER_ADDR and "
        "MASTER_PORT",
        nodes);
  }
  world.master_addr = address.value_or("127.0.0.1");
  world.master_port = port.value_or(0);
}

}  // namespace

std::vector<int> find_own_nodes(const NodeList& list) {
  const auto mine = own_addresses();
  std::vector<int> own;
  for (std::size_t node = 0; node < list.addresses.size(); ++node) {
    if (any_is_own(resolve(list.addresses[node]), mine)) own.push_back(static_cast<int>(node));
  }
  return own;
}

Start start_of_node_list(const NodeList& list, const std::vector<int>& own, const Environment& environment) {
  check_list(list);
  const int node = find_self(list, own, environment);
  Start start;
  start.ranks = list.devices_per_node;
  start.world.launcher = "nodes";
  start.world.rank = node * start.ranks;
  start.world.size = static_cast<int>(list.addresses.size()) * start.ranks;
  start.world.local_size = start.ranks;
  start.world.evidence = fmt::format("nodes {}, this is {}", fmt::join(list.addresses, ", "),
                                     list.addresses[static_cast<std::size_t>(node)]);
  if (start.world.size == 1) return start;
  start.world.rendezvous = Rendezvous::tcp;
  start.world.master_addr = list.addresses.front();
  start.world.master_port = list.ctrl_port.value_or(0);
  if (list.ctrl_port) start.world.evidence += fmt::format(", ctrl_port {}", *list.ctrl_port);
  return start;
}

std::optional<Start> start_of_arguments(const StartOptions& options, const Environment& environment) {
  const InitArguments& arguments = options.arguments;
  if (!arguments.rank && !arguments.world_size) return std::nullopt;
  check_arguments(arguments);
  if (rank_of_init_method(environment)) {
    refuse_arguments(
        "--rank and --world_size count nodes, and --init_method {} gives the rank; leave out the arguments or the "
        "part after '?'",
        *find(environment, "LOCKSTEP_INIT_METHOD"));
  }
  agree("--rank", *arguments.rank, environment, "VC_TASK_INDEX");
  agree("--world_size", *arguments.world_size, environment, "MA_NUM_HOSTS");
  // 0 on machine types without GPUs.
  const auto devices = find_integer(environment, "MA_NUM_GPUS", 0, 4096);
  Start start;
  start.ranks = std::max(1, devices ? static_cast<int>(*devices) : options.devices_per_node.value_or(1));
  start.world.launcher = "arguments";
  start.world.rank = static_cast<int>(*arguments.rank) * start.ranks;
  start.world.size = static_cast<int>(*arguments.world_size) * start.ranks;
  start.world.local_size = start.ranks;
  start.world.evidence = fmt::format("--rank {} --world_size {}", *arguments.rank, *arguments.world_size);
  if (devices) add_evidence(start.world, "MA_NUM_GPUS", fmt::to_string(*devices));
  meet_nodes(environment, static_cast<int>(*arguments.world_size), start.world);
  return start;
}

}  // namespace lockstep::detail
