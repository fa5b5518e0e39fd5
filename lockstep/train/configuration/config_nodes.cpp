// Keys whose values are lists or maps: parallel.nodes as addresses, model.weights_rename as rules.
#include <lockstep/base/error.h>
#include <lockstep/train/configuration/config_keys.h>

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

std::vector<Rename> renames_of(const ModelConfig& config) {
  const auto& node = config.weights_rename;
  if (node.kind != ConfigNode::Kind::null && node.kind != ConfigNode::Kind::map) {
    throw Error(ErrorKind::config, "config",
                fmt::format("model.weights_rename: expected names in the file and what takes their places, such as "
                            "{{backbone.: \"\", \"*.gamma\": \"*.weight\"}}, found {}",
                            describe_found(node)),
                node.position);
  }
  std::vector<Rename> rules;
  for (const auto& [from, to] : node.entries) {
    const bool is_text = to.kind == ConfigNode::Kind::scalar || to.kind == ConfigNode::Kind::null;
    const auto mistake = is_text ? mistake_in({from, to.scalar}) : "expected a text, found " + describe_found(to);
    if (!mistake.empty()) {
      throw Error(ErrorKind::config, "config", fmt::format("model.weights_rename, '{}': {}", from, mistake),
                  to.position);
    }
    rules.push_back({from, to.scalar});
  }
  return rules;
}

}  // namespace lockstep::train
