// The start from a list of nodes that all run the same command.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/world/host_addresses.h>
#include <lockstep/world/start.h>

#include <fmt/ranges.h>

#include <algorithm>

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

}  // namespace lockstep::detail
