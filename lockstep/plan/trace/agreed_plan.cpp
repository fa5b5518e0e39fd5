// The plan from a file, adapted to the model, or from a search; ranks compare its hash, and rank 0 saves it.
#include <lockstep/base/error.h>
#include <lockstep/comm/texts.h>
#include <lockstep/plan/trace/agreed_plan.h>

#include <fmt/ranges.h>

#include <filesystem>

namespace lockstep::plan {
namespace {

/// Predictions have errors of some percent. A smaller gain does not justify another layout than data parallel without a
/// measurement.
constexpr double kWorthwhile = 0.05;

std::vector<KnownParameter> parameters_of(const Graph& graph) {
  std::vector<KnownParameter> parameters;
  for (const auto& value : graph.values) {
    if (value.kind == ValueKind::parameter) parameters.push_back({value.name, value.info.sizes});
  }
  return parameters;
}

Plan plan_of_file(const std::string& file, const Graph& graph, const Cluster& cluster,
                  std::vector<std::string>& remarks) {
  const int devices = cluster.devices();
  auto plan = load_plan(file);
  if (plan.devices != devices) {
    fail(ErrorKind::config, "plan", "{} is a plan for {} devices, but these are {}; remove the file to plan again",
         file, plan.devices, devices);
  }
  for (const auto& change : adapt(plan, parameters_of(graph))) {
    remarks.push_back(fmt::format("{}: {} (remove the file to plan again)", file, change));
  }
  if (!is_predicted(plan)) {
    plan.cluster = cluster.name;
    plan.device_memory = cluster.device.memory;
    plan.prediction = predict(graph, cluster, plan.mesh_sizes, plan.inputs, plan.parameters);
    plan.prediction.modules.clear();
    plan.lower_bound = plan.prediction.cost;
  }
  return plan;
}

}  // namespace

Plan find_plan(const Graph& graph, double traced, const PlanRequest& request, std::vector<std::string>& remarks) {
  if (request.file && std::filesystem::exists(*request.file)) {
    return plan_of_file(*request.file, graph, request.cluster, remarks);
  }
  auto options = request.search;
  if (!request.is_measured) options.worthwhile = kWorthwhile;
  auto plan = search(graph, request.cluster, options);
  plan.trace_time = Seconds{traced};
  const auto* best = find_alternative(plan, kBest);
  if (options.choose == kBest && best != nullptr && best->cost < plan.prediction.cost) {
    remarks.push_back(
        fmt::format("data parallel is kept: the best layout found would save {:.1f} % of a step, and "
                    "predictions may be off by more",
                    100 * (1 - best->cost / plan.prediction.cost)));
  }
  return plan;
}

void agree_on(const Plan& plan, const PlanRequest& request, const Group& group) {
  const auto hash = plan_hash(plan);
  const auto all = gather_texts(hash, group);
  std::vector<std::size_t> others;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) others.push_back(rank);
  }
  if (!others.empty()) {
    fail(
        ErrorKind::mismatch, "plan",
        "rank(s) {} made another plan than rank 0 (rank {} has {}); all ranks need the same program, configuration and "
        "files",
        fmt::join(others, ", "), group.rank(), hash);
  }
  if (group.rank() == 0 && request.file && !std::filesystem::exists(*request.file)) save_plan(plan, *request.file);
}

}  // namespace lockstep::plan
