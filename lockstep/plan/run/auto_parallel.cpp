// Automatic parallelism. Order: trace a step, plan, agree on the plan, distribute the module, measure it if requested.
#include <lockstep/base/error.h>
#include <lockstep/global/mesh_state.h>
#include <lockstep/plan/auto_parallel.h>
#include <lockstep/plan/measure/measure.h>
#include <lockstep/plan/report/explain.h>
#include <lockstep/plan/run/measured_layouts.h>
#include <lockstep/plan/trace/agreed_plan.h>
#include <lockstep/plan/trace/trace_step.h>

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
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
  request.is_measured = options.verify_steps > 0;
  if (!options.mesh.empty()) request.search.mesh = options.mesh;
  request.search.constraints.parameters = options.parameters;
  if (!options.plan_file.empty()) request.file = options.plan_file;
  return request;
}

/// The plan is used if it is not slower: both layouts use global tensors, so neither is simpler.
constexpr double kNoSlower = 1;

/// Makes this mesh the ambient mesh, for tensors that the program creates without a global input.
void go_on_with(const Mesh& mesh) {
  global::set_ambient_mesh(mesh.state());
  global::work_with(mesh.state());
}

/// Gives the distributed module the faster layout, and returns it.
plan::Layout faster_of_plan_and_data_parallel(const plan::MeasuredStep& step, const plan::KeptNumbers& kept,
                                              const plan::Layout& planned, int steps,
                                              std::vector<std::string>& remarks) {
  const auto plain = plan::data_parallel_layout(planned.mesh.group());
  const auto measured = [&](const plan::Layout& layout) {
    return [&layout, &kept, &step](int of_turn) {
      kept.lay_out(layout);
      return plan::measured_step(step, layout, of_turn);
    };
  };
  const bool plan_wins = plan::beats_data_parallel(steps, kNoSlower, measured(planned), measured(plain), remarks);
  const auto& faster = plan_wins ? planned : plain;
  kept.lay_out(faster);
  go_on_with(faster.mesh);
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
  const bool verify = options.verify_steps > 0 && group.size() > 1 && plan::may_try_data_parallel(plan, remarks);
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
