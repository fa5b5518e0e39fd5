#include <lockstep/plan/cost/work.h>
#include <lockstep/plan/report/module_rows.h>
#include <lockstep/plan/search/written_plan.h>

#include <algorithm>
#include <array>

namespace lockstep::plan {
namespace {

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
  plan.inputs = inputs_of(task, candidate);
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
          .fits = candidate.score.missing == Bytes{}};
}

}  // namespace lockstep::plan
