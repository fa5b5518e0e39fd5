// Local search over the layouts of modules.
#include <lockstep/plan/search/improve.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <string>

namespace lockstep::plan {
namespace {

/// The name without its numbers, equal for "blocks.3.fc1" and "blocks.4.fc1".
std::string without_numbers(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) {
      text += c;
    } else if (text.empty() || text.back() != '#') {
      text += '#';
    }
  }
  return text;
}

Placement along(Way way, const TensorInfo& info) {
  switch (way) {
    case Way::outputs: return Shard(0);
    case Way::outputs_alone: return info.dim() > 1 ? Shard(0) : Replicate();
    case Way::inputs: return info.dim() > 1 ? Shard(1) : Replicate();
    case Way::whole: break;
  }
  return Replicate();
}

}  // namespace

std::vector<ModuleGroup> module_groups(const Program& program) {
  std::vector<ModuleGroup> groups;
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    const auto module = program.values[program.parameters[i]].module;
    const auto found =
        std::find_if(groups.begin(), groups.end(), [&](const auto& each) { return each.module == module; });
    if (found == groups.end()) {
      groups.push_back({.module = module, .parameters = {i}});
    } else {
      found->parameters.push_back(i);
    }
  }
  return groups;
}

std::vector<ModuleGroup> kinds_of(const Program& program, const std::vector<ModuleGroup>& groups) {
  std::map<std::string, ModuleGroup> kinds;
  std::vector<std::string> order;
  for (const auto& group : groups) {
    std::string kind = without_numbers(program.modules[group.module]);
    for (const auto parameter : group.parameters) {
      for (const auto size : program.values[program.parameters[parameter]].info.sizes) kind += fmt::format(" {}", size);
    }
    auto [found, is_new] = kinds.try_emplace(kind, group);
    if (is_new) {
      order.push_back(kind);
    } else {
      found->second.parameters.insert(found->second.parameters.end(), group.parameters.begin(), group.parameters.end());
    }
  }
  std::vector<ModuleGroup> result;
  for (const auto& kind : order) result.push_back(kinds[kind]);
  return result;
}

bool lay(const Program& program, const Space& space, Decisions& decisions, const ModuleGroup& group, std::size_t axis,
         Way way, Assignment& assignment) {
  bool changed = false;
  for (const auto parameter : group.parameters) {
    const auto value = program.parameters[parameter];
    Placements lies = decisions.placements(assignment[value]);
    lies[axis] = along(way, program.values[value].info);
    const auto before = assignment[value];
    place_parameter(program, space, parameter, lies, decisions, assignment);
    changed = changed || assignment[value] != before;
  }
  return changed;
}

std::vector<Assignment> other_ways(const Program& program, const Space& space, Decisions& decisions,
                                   const ModuleGroup& group, std::size_t axis, const Assignment& now) {
  std::vector<Assignment> ways;
  for (const Way way : kWays) {
    Assignment tried = now;
    if (!lay(program, space, decisions, group, axis, way, tried)) continue;
    if (std::find(ways.begin(), ways.end(), tried) == ways.end()) ways.push_back(std::move(tried));
  }
  return ways;
}

namespace {

constexpr double kRounding = 1e-9;

class Climb {
 public:
  Climb(const Program& program, const Space& space, Decisions& decisions, Assignment start, std::size_t& budget)
      : program_(program), space_(space), decisions_(decisions), budget_(budget) {
    best_.prediction = look(start);
    best_.assignment = std::move(start);
    score_ = score_of(best_.prediction, decisions_.model());
  }

  Improved run(Layers layers) && {
    const auto groups = module_groups(program_);
    const auto kinds = kinds_of(program_, groups);
    bool better = true;
    while (better && budget_ > 0) {
      better = change_inputs();
      better = change_each(kinds) || better;
      better = change_pairs(kinds) || better;
      if (better || layers == Layers::alike) continue;
      if (kinds.size() != groups.size()) better = change_each(groups);
      if (!better) better = change_parameters();
    }
    return std::move(best_);
  }

 private:
  Prediction look(const Assignment& assignment) {
    budget_ -= std::min(budget_, program_.steps.size());
    return simulate(program_, decisions_, assignment);
  }

  bool keep_if_better(Assignment tried) {
    if (budget_ == 0) return false;
    auto prediction = look(tried);
    const auto score = score_of(prediction, decisions_.model());
    if (!is_better(score, score_)) return false;
    score_ = score;
    best_ = {.assignment = std::move(tried), .prediction = std::move(prediction)};
    return true;
  }

  bool change_each(const std::vector<ModuleGroup>& groups) {
    bool better = false;
    for (const auto& group : groups) {
      for (std::size_t axis = 0; axis < space_.mesh_sizes.size(); ++axis) {
        for (auto& tried : other_ways(program_, space_, decisions_, group, axis, best_.assignment)) {
          better = keep_if_better(std::move(tried)) || better;
        }
      }
    }
    return better;
  }

  /// Changes two layers together: the first sharded by outputs and the next by inputs, or both replicated.
  bool change_pairs(const std::vector<ModuleGroup>& groups) {
    bool better = false;
    constexpr std::array<std::pair<Way, Way>, 3> kPairs{
        {{Way::outputs, Way::inputs}, {Way::outputs, Way::outputs}, {Way::whole, Way::whole}}};
    for (std::size_t i = 0; i + 1 < groups.size(); ++i) {
      for (std::size_t j = i + 1; j < std::min(groups.size(), i + 3); ++j) {
        for (std::size_t axis = 0; axis < space_.mesh_sizes.size(); ++axis) {
          for (const auto& [first, second] : kPairs) {
            Assignment tried = best_.assignment;
            const bool a = lay(program_, space_, decisions_, groups[i], axis, first, tried);
            const bool b = lay(program_, space_, decisions_, groups[j], axis, second, tried);
            if (a && b) better = keep_if_better(std::move(tried)) || better;
          }
        }
      }
    }
    return better;
  }

  bool change_inputs() {
    bool better = false;
    if (program_.inputs.empty() || space_.fixed_inputs) return false;
    const std::size_t axes = space_.mesh_sizes.size();
    for (std::size_t mask = 0; mask < (std::size_t{1} << axes); ++mask) {
      Placements inputs(axes);
      for (std::size_t axis = 0; axis < axes; ++axis) {
        if (((mask >> axis) & 1) != 0) inputs[axis] = Shard(0);
      }
      Assignment tried = best_.assignment;
      place_inputs(program_, space_, inputs, decisions_, tried);
      if (tried != best_.assignment) better = keep_if_better(std::move(tried)) || better;
    }
    return better;
  }

  /// Changes single tensors, along each axis.
  bool change_parameters() {
    bool better = false;
    for (std::size_t i = 0; i < program_.parameters.size(); ++i) {
      const auto value = program_.parameters[i];
      for (std::size_t axis = 0; axis < space_.mesh_sizes.size(); ++axis) {
        for (const auto& option : space_.by_axis[i][axis]) {
          Placements lies = decisions_.placements(best_.assignment[value]);
          if (lies[axis] == option) continue;
          lies[axis] = option;
          Assignment tried = best_.assignment;
          if (place_parameter(program_, space_, i, lies, decisions_, tried)) {
            better = keep_if_better(std::move(tried)) || better;
          }
        }
      }
    }
    return better;
  }

  const Program& program_;
  const Space& space_;
  Decisions& decisions_;
  std::size_t& budget_;
  Improved best_;
  Score score_;
};

}  // namespace

Score score_of(const Prediction& prediction, const CostModel& model) {
  return {.memory_shortage = std::max(Bytes{}, prediction.memory.total() - model.memory), .cost = prediction.cost};
}

bool is_better(const Score& a, const Score& b) {
  const double size = std::max(a.memory_shortage.value, b.memory_shortage.value);
  if (std::abs(a.memory_shortage.value - b.memory_shortage.value) > kRounding * size)
    return a.memory_shortage < b.memory_shortage;
  return a.cost.value < b.cost.value * (1 - kRounding);
}

Improved improve(const Program& program, const Space& space, Decisions& decisions, Assignment start, Layers layers,
                 std::size_t& budget) {
  return Climb(program, space, decisions, std::move(start), budget).run(layers);
}

}  // namespace lockstep::plan
