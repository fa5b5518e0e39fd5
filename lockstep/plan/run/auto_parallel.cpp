#include <lockstep/base/error.h>
#include <lockstep/plan/auto_parallel.h>
#include <lockstep/plan/explain.h>
#include <lockstep/plan/trace/agreed_plan.h>
#include <lockstep/plan/trace/trace_step.h>

#include <torch/torch.h>

#include <chrono>

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
  Mesh mesh(group, plan.mesh_sizes, plan.mesh_names);
  distribute_module(module, mesh, plan.parameters, {.gradients = options.gradients});
  return {.mesh = std::move(mesh),
          .batch = plan.inputs,
          .parameters = plan.parameters,
          .explanation = plan::explain(plan),
          .remarks = std::move(remarks)};
}

}  // namespace lockstep
