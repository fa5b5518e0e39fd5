#include <lockstep/plan/search/module_groups.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
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

}  // namespace lockstep::plan
