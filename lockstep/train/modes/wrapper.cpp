// The wrapper parts and their effect on the configuration; fully_sharded divides large parameters along data axes.
#include <lockstep/base/error.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/modes/wrapper.h>
#include <lockstep/train/part_settings.h>

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep::train {
namespace {

/// The dimension that the axes of data can divide.
std::optional<std::int64_t> dimension_to_divide(const at::Tensor& parameter, std::int64_t ranks) {
  for (std::int64_t dim = 0; dim < parameter.dim(); ++dim) {
    if (parameter.size(dim) >= ranks) return dim;
  }
  return std::nullopt;
}

/// Each parameter of at least threshold_kb, divided along the axes of data by its first dimension with as many rows as
/// ranks (ZeRO stage 3).
ModulePlan fully_sharded(const PartOptions& options, const torch::nn::Module& module, const MeshLayout& mesh) {
  const double threshold = options.as<FullyShardedSettings>().threshold_kb * 1024;
  std::int64_t ranks = 1;
  for (std::size_t axis = 0; axis < mesh.names.size(); ++axis) {
    if (is_data_axis(mesh.names[axis])) ranks *= mesh.sizes[axis];
  }
  ModulePlan plan;
  for (const auto& parameter : module.named_parameters()) {
    const auto& tensor = parameter.value();
    const auto bytes = static_cast<double>(tensor.numel()) * static_cast<double>(tensor.element_size());
    const auto dim = dimension_to_divide(tensor, ranks);
    if (bytes < threshold || !dim) continue;
    Placements placements(mesh.names.size());
    for (std::size_t axis = 0; axis < mesh.names.size(); ++axis) {
      if (is_data_axis(mesh.names[axis])) placements[axis] = Shard(*dim);
    }
    plan.emplace_back(parameter.key(), std::move(placements));
  }
  return plan;
}

WrapperPart mirrored_wrapper(std::string name, std::string doc) {
  return {.name = std::move(name), .doc = std::move(doc), .settings = [](const PartOptions&, ParallelConfig& config) {
            config.mode = "data_parallel";
          }};
}

WrapperPart sharded_wrapper(std::string name, std::string doc) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .options = PartOptions::of(FullyShardedSettings{}),
          .settings = [](const PartOptions&, ParallelConfig& config) { config.mode = "semi_auto"; },
          .place = fully_sharded};
}

const WrapperPart* wrapper_of(const ResolvedRun& run) {
  const auto& type = run.parallel.wrapper.type;
  if (type.empty()) return nullptr;
  return &part_named(run.parts->wrappers, type, "parallel.wrapper.type");
}

void require_mode(const std::string& mode, const WrapperPart& part) {
  const auto modes = parallel_modes();
  if (std::ranges::find(modes, mode) == modes.end()) {
    fail(ErrorKind::config, "config", "parallel.wrapper.type {} sets parallel.mode '{}', which is not one of {}",
         part.name, mode, fmt::join(modes, ", "));
  }
  if (part.place && mode != "semi_auto") {
    fail(ErrorKind::config, "config",
         "parallel.wrapper.type {} places parameters, which parallel.mode {} does not do; give parallel.mode=semi_auto",
         part.name, mode);
  }
}

}  // namespace

void describe(ConfigFields& fields, FullyShardedSettings& settings) {
  fields.field("threshold_kb", settings.threshold_kb, between(0, 1e9), "KiB of the smallest parameter that is divided");
}

std::vector<WrapperPart> wrapper_parts() {
  return {mirrored_wrapper("data_parallel", "parallel.mode data_parallel"),
          mirrored_wrapper("separate", "the same: parameters that a step does not use are always found"),
          sharded_wrapper("fully_sharded", "parallel.mode semi_auto, with parameters divided over all ranks"),
          mirrored_wrapper("MMDistributedDataParallel", "MMEngine's name of data_parallel"),
          mirrored_wrapper("MMSeparateDistributedDataParallel", "MMEngine's name of separate"),
          sharded_wrapper("MMFullyShardedDataParallel", "MMEngine's name of fully_sharded")};
}

void apply_wrapper(ResolvedRun& run) {
  const auto* part = wrapper_of(run);
  if (part == nullptr) return;
  auto& config = run.parallel;
  auto meant = config;
  if (part->settings) part->settings(options_of(config.wrapper, *part), meant);
  if (config.mode != meant.mode && config.mode != "data_parallel") {
    fail(ErrorKind::config, "config",
         "parallel.wrapper.type {} is parallel.mode {}, and parallel.mode is {}; remove one of them", part->name,
         meant.mode, config.mode);
  }
  require_mode(meant.mode, *part);
  if (config.wrapper.broadcast_buffers) meant.buffers = *config.wrapper.broadcast_buffers ? "broadcast" : "local";
  config = std::move(meant);
}

ModulePlan with_wrapper_placements(ModulePlan plan, const ResolvedRun& run, const MeshLayout& mesh,
                                   const torch::nn::Module& module) {
  const auto* part = wrapper_of(run);
  if (part == nullptr || !part->place) return plan;
  const auto own = part->place(options_of(run.parallel.wrapper, *part), module, mesh);
  for (const auto& [pattern, placements] : own) {
    if (placements.size() == mesh.names.size()) continue;
    fail(ErrorKind::invalid_argument, "parallel.wrapper",
         "the part {} gives {} placements for {}, and the mesh has {} axes ({})", part->name, placements.size(),
         pattern, mesh.names.size(), fmt::join(mesh.names, ", "));
  }
  auto names = names_in(module);
  check_patterns(own, names);
  auto whole = plan;
  for (auto& name : names) {
    const auto* placements = find_placements(own, name);
    if (placements == nullptr || find_placements(plan, name) != nullptr) continue;
    whole.emplace_back(std::move(name), *placements);
  }
  return whole;
}

std::size_t prefetch_of(const ResolvedRun& run) {
  const auto* part = wrapper_of(run);
  return part != nullptr && part->place ? static_cast<std::size_t>(run.parallel.wrapper.prefetch) : 0;
}

void wrap_module(const ResolvedRun& run, torch::nn::Module& module, const Group& group) {
  const auto* part = wrapper_of(run);
  if (part != nullptr && part->wrap) part->wrap(options_of(run.parallel.wrapper, *part), module, group);
}

}  // namespace lockstep::train
