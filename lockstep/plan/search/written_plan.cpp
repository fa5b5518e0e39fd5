// The plan of a candidate: its bounds, and a row for each module with the second best placements.
#include <lockstep/plan/cost/cost_model.h>
#include <lockstep/plan/cost/program.h>
#include <lockstep/plan/plan.h>
#include <lockstep/plan/report/explain.h>
#include <lockstep/plan/search/candidates.h>
#include <lockstep/plan/search/improve.h>
#include <lockstep/plan/search/space.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

namespace lockstep::plan {
namespace {

/// A decided layout, for the rows of its modules.
struct DecidedPlan {
  const Program& whole;
  const Folded& folded;
  const Space& space;
  Decisions& decisions;                  ///< decisions of the folded program
  const Assignment& assignment;          ///< assignment of the folded program
  const std::vector<ModuleCost>& costs;  ///< costs of the whole program's modules
};

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

/// Whether the user has placed a parameter of the whole program.
bool is_given(const DecidedPlan& decided, std::size_t parameter) {
  const auto& folded = decided.folded.program.parameters;
  const auto found = std::find(folded.begin(), folded.end(), decided.folded.decided_by[parameter]);
  return found != folded.end() && decided.space.fixed[static_cast<std::size_t>(found - folded.begin())].has_value();
}

/// One row for each module with parameters; the last one, with an empty name, is for all operators of other modules.
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
                  .given = std::any_of(group.parameters.begin(), group.parameters.end(),
                                       [&](std::size_t each) { return is_given(decided, each); }),
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

/// The time of the work without communication, with all devices busy all the time.
Seconds time_of_the_work_alone(const Task& task) {
  const int devices = task.cluster.devices();
  const auto model = cost_model(task.cluster, std::array{devices});
  Seconds least{};
  for (const auto& step : task.whole.steps) {
    const auto& call = task.whole.operators[step.op].call;
    std::vector<global::Sizes> inputs;
    std::vector<global::Sizes> outputs;
    for (const auto& each : call.tensors) inputs.push_back(each.sizes);
    for (const auto& each : call.outputs) outputs.push_back(each.sizes);
    auto work = work_of(call, inputs, outputs);
    work.flops = work.flops / devices;
    work.touched = work.touched / devices;
    least += step.times * model.compute(work);
  }
  return least;
}

void write_bounds(const Task& task, const Candidate& candidate, const Proven& proven, Plan& plan) {
  plan.lower_bound = std::min(candidate.prediction.cost, time_of_the_work_alone(task));
  plan.bound_is_work_alone = true;
  if (proven.mesh != candidate.mesh) return;
  // The proof is for the folded program, so the bound is scaled to the cost of the whole program.
  const auto scaled = proven.lower_bound * (candidate.prediction.cost / candidate.folded_cost);
  if (scaled > plan.lower_bound) {
    plan.lower_bound = std::min(candidate.prediction.cost, scaled);
    plan.bound_is_work_alone = false;
  }
  plan.optimal = proven.found_best && !(proven.lower_bound < candidate.folded_cost * (1 - 1e-9));
}

}  // namespace

Plan written_plan(const Task& task, const Candidate& candidate, const Proven& proven) {
  const auto& mesh = *candidate.mesh;
  Plan plan;
  plan.mesh_sizes = mesh.space.mesh_sizes;
  plan.inputs = mesh.space.fixed_inputs.value_or(inputs_of(task, candidate));
  plan.mesh_names = axis_names(plan.inputs);
  plan.cluster = task.cluster.name;
  plan.devices = task.cluster.devices();
  plan.device_memory = task.cluster.device.memory;
  plan.prediction = candidate.prediction;
  plan.prediction.modules.clear();
  write_bounds(task, candidate, proven, plan);
  std::vector<std::pair<std::string, Placements>> parameters;
  for (std::size_t i = 0; i < task.whole.parameters.size(); ++i) {
    const auto& item = task.whole.values[task.whole.parameters[i]];
    parameters.emplace_back(item.name, mesh.decisions.placements(candidate.assignment[task.folded.decided_by[i]]));
    plan.known.push_back({.name = item.name, .sizes = item.info.sizes});
  }
  plan.parameters = shortened(parameters);
  for (const auto& [name, placements] : mesh.space.fixed_by_name) plan.inputs_by_name.emplace_back(name, placements);
  for (const auto& op : task.whole.operators) {
    if (!op.strategy) continue;
    const std::pair given(global::name_of(*op.strategy), global::strategy_text(*op.strategy));
    if (std::find(plan.operators.begin(), plan.operators.end(), given) == plan.operators.end()) {
      plan.operators.push_back(given);
    }
  }
  plan.modules = module_rows({.whole = task.whole,
                              .folded = task.folded,
                              .space = mesh.space,
                              .decisions = candidate.mesh->decisions,
                              .assignment = candidate.assignment,
                              .costs = candidate.prediction.modules});
  return plan;
}

Alternative as_alternative(const Candidate& candidate, std::string name) {
  return {.name = std::move(name),
          .mesh_sizes = candidate.mesh->space.mesh_sizes,
          .cost = candidate.prediction.cost,
          .memory = candidate.prediction.memory.total(),
          .fits = candidate.score.memory_shortage == Bytes{}};
}

}  // namespace lockstep::plan
