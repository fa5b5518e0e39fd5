#include <lockstep/base/error.h>
#include <lockstep/plan/auto_parallel.h>
#include <lockstep/plan/explain.h>
#include <lockstep/plan/run/measured_layouts.h>
#include <lockstep/plan/trace/agreed_plan.h>
#include <lockstep/plan/trace/trace_step.h>

#include <torch/torch.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

namespace lockstep {
namespace {

plan::PlanRequest request_of(const AutoParallelOptions& options, int devices) {
  if (options.mesh.empty() && !options.parameters.empty()) {
    fail(ErrorKind::invalid_argument, "auto_parallel",
         "options.parameters place parameters on the axes of a mesh, which would be chosen; give options.mesh, too");
  }
  plan::PlanRequest request;
  request.cluster =
      plan::resized(options.cluster.empty() ? plan::Cluster{} : plan::load_cluster(options.cluster), devices);
  if (options.memory_bytes) request.cluster.device.memory = plan::Bytes{static_cast<double>(*options.memory_bytes)};
  if (!options.mesh.empty()) request.search.mesh = options.mesh;
  request.search.constraints.parameters = options.parameters;
  if (!options.plan_file.empty()) request.file = options.plan_file;
  return request;
}

bool is_data_parallel(const plan::Layout& layout) {
  const auto whole = [](const auto& pattern) {
    return std::all_of(pattern.second.begin(), pattern.second.end(),
                       [](Placement each) { return each.is_replicate(); });
  };
  return layout.mesh.axes() == 1 && layout.batch == Placements{Shard(0)} &&
         std::all_of(layout.parameters.begin(), layout.parameters.end(), whole);
}

/// Leaves the distributed module as what was faster lies, which is returned. Each has two turns, of which the better
/// counts: whatever else the machine did meanwhile, it hardly did in both.
plan::Layout faster_of_plan_and_data_parallel(const plan::MeasuredStep& step, const plan::KeptNumbers& kept,
                                              const plan::Layout& planned, int steps,
                                              std::vector<std::string>& remarks) {
  const auto plain = plan::data_parallel_layout(planned.mesh.group());
  double of_plan = std::numeric_limits<double>::infinity();
  double of_plain = of_plan;
  const auto measure = [&](const plan::Layout& layout, double& best) {
    kept.lay_out(*step.module, layout);
    best = std::min(best, plan::measured_step(step, layout, (steps + 1) / 2));
  };
  for (int turn = 0; turn < 2; ++turn) {
    measure(planned, of_plan);
    measure(plain, of_plain);
  }
  const bool plan_wins = of_plan <= of_plain;
  remarks.push_back(
      fmt::format("measured over {} steps: the plan {:.2f} ms a step, data parallel {:.2f} ms; going on with {}", steps,
                  of_plan * 1e3, of_plain * 1e3, plan_wins ? "the plan" : "data parallel"));
  const auto& faster = plan_wins ? planned : plain;
  kept.lay_out(*step.module, faster);
  return faster;
}

}  // namespace

AutoParallel auto_parallel(torch::nn::Module& module, const Group& group, const std::vector<at::Tensor>& example,
                           const std::function<at::Tensor(const std::vector<at::Tensor>&)>& loss,
                           const AutoParallelOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto graph = plan::trace_step({.module = &module,
                                       .inputs = plan::examples_of(example),
                                       .loss = loss,
                                       .prepare_gradients = options.prepare_gradients,
                                       .optimizer = options.optimizer});
  const double traced = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto request = request_of(options, group.size());
  std::vector<std::string> remarks;
  const auto plan = plan::find_plan(graph, traced, request, remarks);
  plan::agree_on(plan, request, group);
  plan::Layout layout{
      .mesh = Mesh(group, plan.mesh_sizes, plan.mesh_names), .batch = plan.inputs, .parameters = plan.parameters};
  const bool verify = options.verify_steps > 0 && group.size() > 1 && !is_data_parallel(layout);
  const auto kept = verify ? std::optional<plan::KeptNumbers>(module) : std::nullopt;
  distribute_module(module, layout.mesh, layout.parameters, {.gradients = options.gradients});
  if (kept) {
    layout = faster_of_plan_and_data_parallel({.module = &module,
                                               .batch = example,
                                               .loss = loss,
                                               .prepare_gradients = options.prepare_gradients,
                                               .optimizer = options.optimizer},
                                              *kept, layout, options.verify_steps, remarks);
  }
  return {.mesh = std::move(layout.mesh),
          .batch = std::move(layout.batch),
          .parameters = std::move(layout.parameters),
          .explanation = plan::explain(plan),
          .remarks = std::move(remarks)};
}

}  // namespace lockstep
