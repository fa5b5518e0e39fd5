// The possible placements of parameters and inputs, and the possible meshes.
#include <lockstep/plan/search/space.h>

#include <algorithm>
#include <map>

namespace lockstep::plan {
namespace {

constexpr std::int64_t kDividedDims = 2;  ///< outputs and inputs of a layer
constexpr std::int64_t kRowsForBalance = 8;

void add_shapes(int devices, std::size_t axes, std::vector<int>& begun, std::vector<std::vector<int>>& shapes) {
  if (axes == 1) {
    begun.push_back(devices);
    shapes.push_back(begun);
    begun.pop_back();
    return;
  }
  for (int size = 2; size <= devices / 2; ++size) {
    if (devices % size != 0) continue;
    begun.push_back(size);
    add_shapes(devices / size, axes - 1, begun, shapes);
    begun.pop_back();
  }
}

/// Whether `holds(rows, parts)` for each dimension with `rows` rows in `parts` parts.
bool all_dims(const TensorInfo& info, const Placements& placements, std::span<const int> mesh_sizes,
              const auto& holds) {
  for (std::int64_t dim = 0; dim < info.dim(); ++dim) {
    std::int64_t parts = 1;
    for (std::size_t axis = 0; axis < placements.size(); ++axis) {
      if (placements[axis].is_shard(dim)) parts *= mesh_sizes[axis];
    }
    if (!holds(info.sizes[static_cast<std::size_t>(dim)], parts)) return false;
  }
  return true;
}

}  // namespace

Placements divided_along(std::size_t mask, std::size_t axes) {
  Placements inputs(axes);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    if (((mask >> axis) & 1) != 0) inputs[axis] = Shard(0);
  }
  return inputs;
}

bool may_lie(const TensorInfo& info, const Placements& placements, std::span<const int> mesh_sizes) {
  return all_dims(info, placements, mesh_sizes,
                  [](std::int64_t rows, std::int64_t parts) { return parts == 1 || rows >= parts; });
}

bool divides_well(const TensorInfo& info, const Placements& placements, std::span<const int> mesh_sizes) {
  return all_dims(info, placements, mesh_sizes, [](std::int64_t rows, std::int64_t parts) {
    return rows % parts == 0 || rows >= kRowsForBalance * parts;
  });
}

Space make_space(const Program& program, std::vector<int> mesh_sizes, const Constraints& constraints) {
  Space space{.mesh_sizes = std::move(mesh_sizes),
              .by_axis = {},
              .fixed = {},
              .fixed_inputs = constraints.inputs,
              .fixed_by_name = constraints.inputs_by_name};
  for (const auto value : program.parameters) {
    const auto& item = program.values[value];
    auto& options = space.by_axis.emplace_back();
    for (std::size_t axis = 0; axis < space.mesh_sizes.size(); ++axis) {
      auto& one = options.emplace_back(1, Replicate());
      for (std::int64_t dim = 0; dim < std::min(item.info.dim(), kDividedDims); ++dim) {
        Placements alone(space.mesh_sizes.size());
        alone[axis] = Shard(dim);
        if (space.mesh_sizes[axis] > 1 && may_lie(item.info, alone, space.mesh_sizes)) one.push_back(Shard(dim));
      }
    }
    const auto* fixed = find_placements(constraints.parameters, item.name);
    space.fixed.push_back(fixed == nullptr ? std::nullopt : std::optional(*fixed));
  }
  return space;
}

void place_inputs(const Program& program, const Space& space, const Placements& placements, Decisions& decisions,
                  Assignment& assignment) {
  for (const auto input : program.inputs) {
    const auto& info = program.values[input].info;
    const auto named = space.fixed_by_name.find(program.values[input].name);
    Placements lies = named != space.fixed_by_name.end() ? named->second : space.fixed_inputs.value_or(placements);
    for (auto& each : lies) {
      if (each.is_shard() && (info.dim() <= each.dim || info.sizes[static_cast<std::size_t>(each.dim)] < 2))
        each = Replicate();
    }
    assignment[input] = decisions.number(lies);
  }
}

Assignment start_of(const Program& program, const Space& space, Decisions& decisions) {
  Assignment assignment(program.values.size(), kReplicated);
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    if (space.fixed[i]) assignment[program.parameters[i]] = decisions.number(*space.fixed[i]);
  }
  place_inputs(program, space, Placements(space.mesh_sizes.size()), decisions, assignment);
  return assignment;
}

bool place_parameter(const Program& program, const Space& space, std::size_t parameter, const Placements& placements,
                     Decisions& decisions, Assignment& assignment) {
  const auto value = program.parameters[parameter];
  if (space.fixed[parameter] || !may_lie(program.values[value].info, placements, space.mesh_sizes)) return false;
  assignment[value] = decisions.number(placements);
  return true;
}

std::vector<std::vector<int>> mesh_shapes(int devices, std::size_t most_axes) {
  std::vector<std::vector<int>> shapes;
  std::vector<int> begun;
  for (std::size_t axes = 1; axes <= most_axes; ++axes) add_shapes(devices, axes, begun, shapes);
  return shapes;
}

std::vector<std::string> axis_names(const Placements& inputs) {
  std::vector<std::string> names;
  for (const auto& each : inputs) names.emplace_back(each.is_shard() ? "data" : "model");
  const auto plain = names;
  std::map<std::string, int> count;
  for (std::size_t axis = 0; axis < plain.size(); ++axis) {
    const int number = ++count[plain[axis]];
    if (std::count(plain.begin(), plain.end(), plain[axis]) > 1) names[axis] += std::to_string(number);
  }
  return names;
}

}  // namespace lockstep::plan
