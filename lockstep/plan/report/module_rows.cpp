#include <lockstep/plan/report/module_rows.h>
#include <lockstep/plan/report/shown.h>
#include <lockstep/plan/search/improve.h>

#include <algorithm>
#include <map>
#include <optional>

namespace lockstep::plan {
namespace {

struct RunnerUp {
  std::string text;
  Seconds cost{};
};

std::string local_name(const std::string& parameter) {
  const auto dot = parameter.rfind('.');
  return dot == std::string::npos ? parameter : parameter.substr(dot + 1);
}

std::string placements_text(const DecidedPlan& decided, const ModuleGroup& group, const Assignment& assignment) {
  std::vector<std::pair<std::string, Placements>> parameters;
  for (const auto parameter : group.parameters) {
    const auto value = decided.folded.program.parameters[parameter];
    parameters.emplace_back(local_name(decided.folded.program.values[value].name),
                            decided.decisions.placements(assignment[value]));
  }
  return shown_parameters(parameters);
}

std::optional<RunnerUp> runner_up(const DecidedPlan& decided, const ModuleGroup& group) {
  std::optional<RunnerUp> best;
  for (std::size_t axis = 0; axis < decided.space.mesh_sizes.size(); ++axis) {
    for (const auto& tried :
         other_ways(decided.folded.program, decided.space, decided.decisions, group, axis, decided.assignment)) {
      const auto prediction = simulate(decided.folded.program, decided.decisions, tried);
      if (prediction.memory.total() > decided.decisions.model().memory) continue;
      if (!best || prediction.cost < best->cost)
        best = {.text = placements_text(decided, group, tried), .cost = prediction.cost};
    }
  }
  return best;
}

}  // namespace

std::vector<ModuleRow> module_rows(const DecidedPlan& decided) {
  std::map<std::size_t, std::optional<RunnerUp>> of_parameter;  // by value of the folded program
  for (const auto& group : module_groups(decided.folded.program)) {
    const auto next = runner_up(decided, group);
    for (const auto parameter : group.parameters) of_parameter[decided.folded.program.parameters[parameter]] = next;
  }
  std::vector<ModuleRow> rows;
  std::vector<bool> shown_already(decided.costs.size());
  for (const auto& group : module_groups(decided.whole)) {
    ModuleRow row{.module = decided.whole.modules[group.module],
                  .parameters = {},
                  .compute = decided.costs[group.module].compute,
                  .communication = decided.costs[group.module].communication,
                  .moved = decided.costs[group.module].moved,
                  .runner_up = {},
                  .runner_up_cost = {}};
    shown_already[group.module] = true;
    for (const auto parameter : group.parameters) {
      const auto value = decided.folded.decided_by[parameter];
      const auto& name = decided.whole.values[decided.whole.parameters[parameter]].name;
      row.parameters.emplace_back(local_name(name), decided.decisions.placements(decided.assignment[value]));
      if (const auto& next = of_parameter[value]) {
        row.runner_up = next->text;
        row.runner_up_cost = next->cost;
      }
    }
    rows.push_back(std::move(row));
  }
  ModuleRow others;
  for (std::size_t module = 0; module < decided.costs.size(); ++module) {
    if (shown_already[module]) continue;
    others.compute += decided.costs[module].compute;
    others.communication += decided.costs[module].communication;
    others.moved += decided.costs[module].moved;
  }
  rows.push_back(std::move(others));
  return rows;
}

}  // namespace lockstep::plan
