// parallel.nodes as a list of addresses.
#include <lockstep/base/error.h>
#include <lockstep/train/config_keys.h>

#include <fmt/format.h>

namespace lockstep::train {
namespace {

[[noreturn]] void fail_at(const ConfigNode& node, std::size_t index) {
  throw Error(ErrorKind::config, "config",
              fmt::format("parallel.nodes[{}]: expected {{addr: ADDRESS}} or an address, found {}", index,
                          describe_found(node)),
              node.position);
}

std::string address_of(const ConfigNode& node, std::size_t index) {
  const ConfigNode* address = node.kind == ConfigNode::Kind::map ? node.find("addr") : &node;
  const bool only_key = node.kind != ConfigNode::Kind::map || node.entries.size() == 1;
  if (address == nullptr || !only_key || address->kind != ConfigNode::Kind::scalar || address->scalar.empty()) {
    fail_at(node, index);
  }
  return address->scalar;
}

}  // namespace

NodeList node_list_of(const ParallelConfig& config) {
  NodeList list;
  if (config.nodes.kind != ConfigNode::Kind::null && config.nodes.kind != ConfigNode::Kind::list) {
    throw Error(
        ErrorKind::config, "config",
        fmt::format("parallel.nodes: expected a list such as [{{addr: 10.0.0.1}}, {{addr: 10.0.0.2}}], found {}",
                    describe_found(config.nodes)),
        config.nodes.position);
  }
  for (const auto& node : config.nodes.items) list.addresses.push_back(address_of(node, list.addresses.size()));
  if (config.ctrl_port) list.ctrl_port = static_cast<std::uint16_t>(*config.ctrl_port);
  list.devices_per_node = static_cast<int>(config.devices_per_node.value_or(1));
  if (list.addresses.empty() && list.devices_per_node > 1) list.addresses = {"127.0.0.1"};
  return list;
}

}  // namespace lockstep::train
