// The parser of mesh sizes and parameter placements, rules between the parallel keys, and each rank's share of data.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>
#include <lockstep/global/operator_strategy.h>
#include <lockstep/global/placement.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/modes/strategies.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace lockstep::train {
namespace {

constexpr std::string_view kDataAxis = "data";

std::optional<std::int64_t> integer_of(const ConfigNode& node) {
  if (node.kind != ConfigNode::Kind::scalar || node.quoted) return std::nullopt;
  return parse_integer(node.scalar);
}

std::size_t axis_of(const MeshLayout& mesh, const ConfigNode& place, const std::string& key, const std::string& name) {
  const auto found = std::find(mesh.names.begin(), mesh.names.end(), name);
  if (found == mesh.names.end()) {
    refuse_at(place.position,
              fmt::format("{}: parallel.mesh has no axis '{}', only {}", key, name, fmt::join(mesh.names, ", ")));
  }
  return static_cast<std::size_t>(found - mesh.names.begin());
}

Placements by_axes(const ConfigNode& node, const MeshLayout& mesh, const std::string& key) {
  Placements placements(mesh.sizes.size());
  for (const auto& [axis, value] : node.entries) {
    const auto dim = integer_of(value);
    if (!dim || *dim < 0) {
      refuse_at(value.position, fmt::format("{}: axis '{}' divides a dimension, a number from 0, not {}", key, axis,
                                            describe_found(value)));
    }
    placements[axis_of(mesh, value, key, axis)] = Shard(*dim);
  }
  return placements;
}

Placements by_text(const ConfigNode& node, const MeshLayout& mesh, const std::string& key) {
  try {
    auto placements = parse_placements(node.scalar);
    if (placements.size() != mesh.sizes.size()) {
      refuse_at(node.position, fmt::format("{}: '{}' has {} placements, the mesh {} axes; one for each is needed", key,
                                           node.scalar, placements.size(), mesh.sizes.size()));
    }
    return placements;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::invalid_argument) throw;
    refuse_at(node.position, key + ": " + error.message());
  }
}

/// A list such as [S0, R], item by item.
Placements by_list(const ConfigNode& node, const MeshLayout& mesh, const std::string& key) {
  ConfigNode text = node;
  text.kind = ConfigNode::Kind::scalar;
  for (const auto& item : node.items) text.scalar += (text.scalar.empty() ? "" : ",") + item.scalar;
  return by_text(text, mesh, key);
}

void fill_in_the_rest(MeshLayout& mesh, int world_size) {
  int known = 1;
  int* rest = nullptr;
  for (auto& size : mesh.sizes) {
    if (size == -1) {
      rest = &size;
    } else {
      known *= size;
    }
  }
  if (rest != nullptr) *rest = world_size / known;
}

/// Error(config) with file and line for a pattern of parallel.shard that fits none of the names.
void require_names(const ConfigNode& shard, const std::vector<std::string>& names) {
  for (const auto& [pattern, value] : shard.entries) {
    if (std::ranges::any_of(names, [&, &fitting = pattern](const auto& name) { return fits(name, fitting); })) continue;
    refuse_at(value.position, fmt::format("parallel.shard: no parameter or buffer of the model fits \"{}\"{}", pattern,
                                          did_you_mean(pattern, names)));
  }
}

}  // namespace

void refuse_at(const FilePosition& position, const std::string& message) {
  throw Error(ErrorKind::config, "config", message, position);
}

bool is_global_mode(const ParallelConfig& config) { return config.mode == "semi_auto"; }

MeshLayout mesh_layout(const ParallelConfig& config, int world_size) {
  MeshLayout mesh;
  if (config.mesh.kind == ConfigNode::Kind::null) return {{world_size}, {std::string(kDataAxis)}};
  if (config.mesh.kind != ConfigNode::Kind::map || config.mesh.entries.empty()) {
    refuse_at(config.mesh.position,
              fmt::format("parallel.mesh: expected axes with their sizes, such as {{data: 2, model: 4}}, found {}",
                          describe_found(config.mesh)));
  }
  for (const auto& [name, value] : config.mesh.entries) {
    const auto size = integer_of(value);
    const bool second_rest = size == -1 && std::count(mesh.sizes.begin(), mesh.sizes.end(), -1) > 0;
    if (!size || *size == 0 || *size < -1 || *size > 1 << 20 || second_rest) {
      refuse_at(value.position,
                fmt::format("parallel.mesh.{}: expected a number of ranks, or -1 on one axis for the rest, found {}",
                            name, describe_found(value)));
    }
    mesh.names.push_back(name);
    mesh.sizes.push_back(static_cast<int>(*size));
  }
  fill_in_the_rest(mesh, world_size);
  std::int64_t ranks = 1;
  for (const int size : mesh.sizes) ranks *= size;
  if (ranks != world_size) {
    refuse_at(config.mesh.position,
              fmt::format("parallel.mesh: {} makes {} ranks, but {} were started; a size of -1 takes "
                          "as many as are left",
                          fmt::join(mesh.sizes, " x "), ranks, world_size));
  }
  return mesh;
}

Placements read_placements(const ConfigNode& node, const MeshLayout& mesh, const std::string& key) {
  switch (node.kind) {
    case ConfigNode::Kind::map: return by_axes(node, mesh, key);
    case ConfigNode::Kind::scalar: return by_text(node, mesh, key);
    case ConfigNode::Kind::list: return by_list(node, mesh, key);
    case ConfigNode::Kind::null: break;
  }
  refuse_at(node.position,
            key + ": expected placements such as '[Replicate(), Shard(0)]', or {model: 0}, found nothing");
}

ModulePlan module_plan(const ParallelConfig& config, const MeshLayout& mesh) {
  if (config.shard.kind == ConfigNode::Kind::null) return {};
  if (config.shard.kind != ConfigNode::Kind::map) {
    refuse_at(config.shard.position,
              fmt::format("parallel.shard: expected names of parameters with their placements, found {}",
                          describe_found(config.shard)));
  }
  ModulePlan plan;
  for (const auto& [pattern, value] : config.shard.entries)
    plan.emplace_back(pattern, read_placements(value, mesh, "parallel.shard"));
  return plan;
}

ModulePlan whole_plan(const ParallelConfig& config, const MeshLayout& mesh, const std::vector<std::string>& names) {
  const auto shard = module_plan(config, mesh);
  require_names(config.shard, names);
  auto plan = plan_of_layers(read_strategies(config, names), mesh.sizes, mesh.names, names);
  for (const auto& [name, placements] : plan) {
    const auto* other = find_placements(shard, name);
    if (other != nullptr && *other != placements) {
      refuse_at(config.strategy.position,
                fmt::format("parallel: {} is {} by parallel.strategy and {} by parallel.shard; remove one of them",
                            name, to_string(placements), to_string(*other)));
    }
  }
  plan.insert(plan.end(), shard.begin(), shard.end());
  return plan;
}

std::vector<std::string> idle_axes(const ParallelConfig& config, const MeshLayout& mesh, const ModulePlan& plan) {
  const auto batch = batch_layout(config, mesh);
  std::vector<std::string> idle;
  for (std::size_t axis = 0; axis < mesh.names.size(); ++axis) {
    const auto divided = [&](const auto& rule) { return rule.second[axis].is_shard(); };
    const bool used = batch.loaded[axis].is_shard() || std::any_of(plan.begin(), plan.end(), divided) ||
                      std::any_of(batch.inputs.begin(), batch.inputs.end(), divided);
    if (!used && mesh.sizes[axis] > 1) idle.push_back(mesh.names[axis]);
  }
  return idle;
}

void check_parallel(const ResolvedRun& config) {
  const auto& parallel = config.parallel;
  const auto refuse = [](const std::string& message) { throw Error(ErrorKind::config, "config", message); };
  const auto given = [](const ConfigNode& node) { return node.kind != ConfigNode::Kind::null; };
  const bool planned = parallel.mode == "auto";
  if (parallel.strategy_ckpt_load_file && (given(parallel.mesh) || given(parallel.shard) || given(parallel.strategy) ||
                                           given(parallel.dataset_strategy) || parallel.plan)) {
    refuse(
        "parallel.strategy_ckpt_load_file decides on mesh, shard, strategy, dataset_strategy and plan; remove it, or "
        "these keys");
  }
  if (!planned && (parallel.plan || parallel.cluster || parallel.memory_limit_mb || parallel.verify_plan > 0)) {
    refuse(
        "parallel.plan, cluster, memory_limit_mb and verify_plan are for parallel.mode auto; set that, or remove them");
  }
  if (parallel.sync_batch_norm && parallel.buffers == "local") {
    refuse(
        "parallel.buffers local keeps each rank's own batch norm statistics, and parallel.sync_batch_norm makes them "
        "the same on all; remove one of them");
  }
  if (!is_global_mode(parallel) && !planned) {
    if (given(parallel.mesh) || given(parallel.shard) || given(parallel.strategy) ||
        (given(parallel.dataset_strategy) && parallel.dataset_strategy.scalar != "data_parallel")) {
      refuse(
          "parallel.mesh, shard, strategy and dataset_strategy are for parallel.mode semi_auto and auto; set one of "
          "them, or remove the keys");
    }
    return;
  }
  if (planned && parallel.shard_optimizer) {
    refuse(
        "parallel.shard_optimizer is for data_parallel and semi_auto; in mode auto, the planner decides which "
        "parameters are sharded along `data`, and their optimizer state is, too");
  }
}

DataShare global_data_share(const ParallelConfig& config, int rank, int world_size) {
  const auto mesh = mesh_layout(config, world_size);
  const auto batch = batch_layout(config, mesh).loaded;
  DataShare share;
  const auto coordinate = global::coordinate_of(rank, mesh.sizes);
  // The first axis counts fastest: of a batch that does not divide, those first on an axis have one row more, and of
  // their parts again those first on the next (global::part_of).
  for (std::size_t axis = 0; axis < mesh.sizes.size(); ++axis) {
    if (!batch[axis].is_shard()) continue;
    share.index += coordinate[axis] * share.count;
    share.count *= mesh.sizes[axis];
  }
  return share;
}

BatchLayout batch_layout(const ParallelConfig& config, const MeshLayout& mesh) {
  return batch_layout(config.dataset_strategy, mesh);
}

std::vector<std::string> names_in(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : module_state(module)) names.push_back(name);
  return names;
}

}  // namespace lockstep::train
