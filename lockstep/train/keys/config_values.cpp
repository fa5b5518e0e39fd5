// Values that follow from keys: lists and maps as addresses and rules, defaults that depend on other keys, and what the
// named parts can do.
#include <lockstep/base/error.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/parameter_names.h>
#include <lockstep/train/keys/part_kinds.h>

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

bool uses_task(const ResolvedRun& config) {
  const auto* part = find_part(config.parts->models, config.model.name);
  return !config.has_own_model && part != nullptr && part->task != kClassification;
}

bool has_task(const ResolvedRun& config) {
  return !config.has_own_model && (uses_task(config) || !config.task.name.empty());
}

void require_elementwise(const ResolvedRun& config) {
  const auto& name = config.optimizer.name;
  if (part_named(config.parts->optimizers, name, "optimizer.name").elementwise) return;
  fail(ErrorKind::config, "config",
       "optimizer.name {} needs whole parameters (such as their norms), and parallel.shard_optimizer divides them into "
       "pieces; set parallel.shard_optimizer to false (parallel.mode semi_auto divides "
       "optimizer "
       "state for {}, too), or take another optimizer",
       name, name);
}

bool takes_rows(const ResolvedRun& config) {
  return !config.optimizer_factory &&
         part_named(config.parts->optimizers, config.optimizer.name, "optimizer.name").takes_rows;
}

bool looks_ahead(std::string_view schedule) {
  const auto* part = find_part(shared_shipped_parts()->schedules, schedule);
  return part == nullptr || part->looks_ahead;
}

std::int64_t global_batch_size_of(const DataConfig& config, int shares) {
  return config.global_batch_size.value_or(config.batch_size.value_or(kDefaultBatchSize) * shares);
}

std::uint64_t shuffle_seed_of(const ResolvedRun& config) {
  return static_cast<std::uint64_t>(config.data.shuffle_seed.value_or(config.system.seed));
}

std::filesystem::path checkpoint_folder_of(const ResolvedRun& config) {
  if (config.checkpoint.folder) return *config.checkpoint.folder;
  return std::filesystem::path(config.system.work_dir) / "checkpoints";
}

std::string_view another_folder(const ResolvedRun& config) {
  return config.checkpoint.folder ? "another checkpoint.folder" : "another system.work_dir";
}

bool saves_checkpoints(const CheckpointConfig& config) {
  return config.every_epochs > 0 || config.every_steps > 0 || config.every_seconds > 0;
}

}  // namespace lockstep::train
