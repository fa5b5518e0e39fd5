// The writer of plans in JSON.
#include <lockstep/base/atomic_file.h>
#include <lockstep/base/sha256.h>
#include <lockstep/plan/file/plan_format.h>
#include <lockstep/plan/plan.h>

#include <nlohmann/json.hpp>

namespace lockstep::plan {
namespace {

using Json = nlohmann::ordered_json;

/// The values that must be equal on all ranks.
Json layout_of(const Plan& plan) {
  Json parameters = Json::object();
  for (const auto& [pattern, placements] : plan.parameters) parameters[pattern] = to_string(placements);
  return {{"mesh", plan.mesh_sizes},
          {"mesh_names", plan.mesh_names},
          {"inputs", to_string(plan.inputs)},
          {"parameters", std::move(parameters)}};
}

Json memory_json(const Memory& memory) {
  return {{"parameters", memory.parameters.value},
          {"gradients", memory.gradients.value},
          {"optimizer_state", memory.optimizer_state.value},
          {"activations", memory.activations.value},
          {"communication", memory.communication.value}};
}

Json traffic_json(const Traffic& traffic) {
  Json json = Json::object();
  for (std::size_t kind = 0; kind < kCollectives; ++kind) {
    if (traffic.count[kind] == 0) continue;
    json[std::string(name(static_cast<Collective>(kind)))] = {{"count", traffic.count[kind]},
                                                              {"bytes", traffic.bytes[kind].value}};
  }
  return json;
}

Json module_json(const ModuleRow& row) {
  Json parameters = Json::object();
  for (const auto& [name, placements] : row.parameters) parameters[name] = to_string(placements);
  Json json{{"module", row.module},
            {"parameters", std::move(parameters)},
            {"compute_s", row.compute.value},
            {"communication_s", row.communication.value},
            {"bytes", row.moved.value}};
  if (row.runner_up_cost) {
    json["runner_up"] = row.runner_up;
    json["runner_up_cost_s"] = row.runner_up_cost->value;
  }
  return json;
}

}  // namespace

std::string plan_hash(const Plan& plan) {
  Sha256 hash;
  hash.update(layout_of(plan).dump());
  return hash.hex();
}

std::string plan_json(const Plan& plan) {
  Json alternatives = Json::array();
  for (const auto& each : plan.alternatives) {
    alternatives.push_back({{"name", each.name},
                            {"mesh", each.mesh_sizes},
                            {"cost_s", each.cost.value},
                            {"memory_bytes", each.memory.value},
                            {"fits", each.fits}});
  }
  Json modules = Json::array();
  for (const auto& each : plan.modules) modules.push_back(module_json(each));
  Json model = Json::object();
  for (const auto& each : plan.known) model[each.name] = each.sizes;
  const auto& predicted = plan.prediction;

  Json json{{"format", kPlanFormat}};
  json.update(layout_of(plan));
  json.update(Json{{"plan_hash", plan_hash(plan)},
                   {"cluster", plan.cluster},
                   {"devices", plan.devices},
                   {"cost_s", predicted.cost.value},
                   {"lower_bound_s", plan.lower_bound.value},
                   {"lower_bound_is_work_alone", plan.bound_is_work_alone},
                   {"optimal", plan.optimal},
                   {"time",
                    {{"compute_s", predicted.compute.value},
                     {"communication_s", predicted.communication.value},
                     {"redistribution_s", predicted.redistribution.value},
                     {"gradient_reduction_s", predicted.reduction.value},
                     {"gradient_reduction_waited_for_s", predicted.exposed.value}}},
                   {"memory_bytes", predicted.memory.total().value},
                   {"device_memory_bytes", plan.device_memory.value},
                   {"memory", memory_json(predicted.memory)},
                   {"collectives", traffic_json(predicted.traffic)},
                   {"alternatives", std::move(alternatives)},
                   {"search_s", plan.search_time.value},
                   {"trace_s", plan.trace_time.value},
                   {"modules", std::move(modules)},
                   {"model", std::move(model)}});
  return json.dump(2) + "\n";
}

void save_plan(const Plan& plan, const std::filesystem::path& path) { write_file_atomically(path, plan_json(plan)); }

}  // namespace lockstep::plan
